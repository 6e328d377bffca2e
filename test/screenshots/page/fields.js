// SPDX-License-Identifier: Apache-2.0

// The field options that the dashboards use. Grafana's panels register theirs in the application, which no package has.
import {
  FieldConfigOptionsRegistry, applyFieldOverrides, cacheFieldDisplayNames, identityOverrideProcessor, standardTransformers, standardTransformersRegistry,
} from '@grafana/data';

/** registryOf has every option that a panel sets, as a default or for some fields. */
function registryOf(panel) {
  const { defaults, overrides } = panel.fieldConfig;
  const ids = new Set(Object.keys(defaults).filter((k) => k !== 'custom'));
  for (const k of Object.keys(defaults.custom ?? {})) ids.add(`custom.${k}`);
  for (const o of overrides) for (const p of o.properties) ids.add(p.id);
  return new FieldConfigOptionsRegistry(() => [...ids].map((id) => {
    const isCustom = id.startsWith('custom.');
    return {
      id, isCustom, path: isCustom ? id.slice('custom.'.length) : id, name: id, editor: () => null, override: () => null,
      process: identityOverrideProcessor, shouldApply: () => true, settings: {},
    };
  }));
}

/** configured applies a panel's options to frames, as Grafana's panels do. */
export function configured(panel, frames, theme) {
  const data = applyFieldOverrides({
    data: frames, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registryOf(panel), theme, timeZone: 'utc',
    replaceVariables: (s) => s,
  });
  // Colors by name need the names.
  cacheFieldDisplayNames(data);
  return data;
}

const { mergeTransformer, organizeFieldsTransformer, orderFieldsTransformer, filterFieldsByNameTransformer, renameFieldsTransformer, sortByTransformer } = standardTransformers;
standardTransformersRegistry.setInit(() => [
  mergeTransformer, organizeFieldsTransformer, orderFieldsTransformer, filterFieldsByNameTransformer, renameFieldsTransformer, sortByTransformer,
].map((t) => ({ id: t.id, name: t.name, aliasIds: [], transformation: t, editor: () => null })));
