// SPDX-License-Identifier: Apache-2.0

// Asks Prometheus as Grafana's data source does, and makes data frames of the answers.
import { FieldType, createDataFrame, rangeUtil, transformDataFrame } from '@grafana/data';
import { firstValueFrom } from 'rxjs';

// How often the controller reads the pods, in milliseconds. In a short window of rates that is no multiple of it, a steady
// rate would go up and down; with scrapes every 15 s, as the PodMonitor has them, Grafana's window is one.
const reads = 15_000;

/** Source knows the time range, the scrape interval in seconds, and the values of the variables. */
export class Source {
  constructor({ from, to, step }) {
    Object.assign(this, { from, to, scrape: step * 1000, values: {} });
  }

  async ask(path, query) {
    const again = () => fetch(`/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(query) });
    // Chromium ends requests when a network interface comes or goes, as when pods start on this machine.
    const answer = await (await again().catch(again).catch(again)).json();
    if (answer.status !== 'success') throw new Error(`${query.query}: ${answer.error}`);
    return answer.data;
  }

  /** step is the distance of two values, in milliseconds. */
  step(points, least) {
    const range = { from: { valueOf: () => this.from }, to: { valueOf: () => this.to } };
    return Math.max(rangeUtil.calculateInterval(range, points, '1s').intervalMs, least);
  }

  bind(expr, step) {
    const known = {
      __interval: `${step}ms`, __interval_ms: String(step), __range: `${this.to - this.from}ms`,
      __rate_interval: `${Math.max(2 * reads, 4 * this.scrape, step + this.scrape)}ms`, ...this.values,
    };
    return expr.replace(/\$(\w+)/g, (all, name) => known[name] ?? all);
  }

  /** choose selects a value of each variable: the wanted one, or all, or the first. */
  async choose(variables, wanted) {
    for (const v of variables) {
      if (v.type !== 'query') continue;
      const [, series, label] = /^label_values\((.*), (\w+)\)$/.exec(v.query);
      const bound = this.bind(series, this.scrape);
      const { result } = await this.ask('query', { query: `group by (${label}) (last_over_time(${bound}[${this.to - this.from}ms]))`, time: this.to / 1000 });
      const all = result.map((r) => r.metric[label] ?? '').sort();
      this.values[v.name] = wanted[v.name] ?? (v.includeAll ? v.allValue : all[0]);
    }
  }

  /** range has one frame for each series. */
  async range(target, step) {
    const at = (t) => Math.floor(t / step) * step / 1000;
    const { result } = await this.ask('query_range', { query: this.bind(target.expr, step), start: at(this.from), end: at(this.to), step: step / 1000 });
    return result.map(({ metric, values }) => {
      const name = named(target.legendFormat, metric);
      return createDataFrame({
        refId: target.refId, name,
        fields: [
          { name: 'Time', type: FieldType.time, config: { interval: step }, values: values.map(([t]) => t * 1000) },
          { name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS: name }, values: values.map(([, v]) => Number(v)) },
        ],
      });
    });
  }

  /** instant has one frame with a column for each label. */
  async instant(target, several) {
    const { result } = await this.ask('query', { query: this.bind(target.expr, this.scrape), time: this.to / 1000 });
    const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
        ...labels.map((name) => ({ name, type: FieldType.string, values: result.map(({ metric }) => metric[name] ?? '') })),
        { name: several ? `Value #${target.refId}` : 'Value', type: FieldType.number, values: result.map(({ value }) => Number(value[1])) },
      ],
    });
  }

  /** panel answers all queries of a panel. */
  async panel(panel, points) {
    const least = panel.interval ? rangeUtil.intervalToMs(panel.interval) : this.scrape;
    const step = this.step(points, least);
    const frames = (await Promise.all(panel.targets.map((t) => (t.instant ? this.instant(t, panel.targets.length > 1) : this.range(t, step))))).flat().filter((f) => f.length > 0);
    return firstValueFrom(transformDataFrame(panel.transformations ?? [], frames));
  }

  /** marks are annotations: the first moment of each run of values above 0, as in Grafana. */
  async marks(annotation) {
    const step = this.step(100, this.scrape);
    const frames = await this.range({ expr: annotation.expr, legendFormat: annotation.textFormat }, step);
    return frames.flatMap(({ fields: [time, value] }) => {
      const active = time.values.filter((_, i) => value.values[i] > 0);
      return active.filter((t, i) => i === 0 || active[i - 1] + step < t).map((t) => ({
        time: t, color: annotation.iconColor, text: value.config.displayNameFromDS,
      }));
    });
  }
}

function named(format, labels) {
  return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');
}
