// SPDX-License-Identifier: Apache-2.0

// Reads what a person sees from a rendered dashboard.

/** read returns, for each panel, its legend with colors, its empty text, its table, and its axis. */
export async function read(page) {
  return page.evaluate(() => [...document.querySelectorAll('[data-panel]')].map((panel) => {
    const legend = [...panel.querySelectorAll('[data-testid="series-icon"]')].map((icon) => {
      const dashed = icon.style.backgroundImage !== '' && icon.style.backgroundImage !== 'initial';
      const color = (dashed ? icon.style.backgroundImage : icon.style.background).match(/rgba?\([^)]*\)|#\w+/)?.[0];
      const item = icon.closest('tr') ?? icon.parentElement;
      const label = item.querySelector('button')?.textContent ?? item.textContent;
      return { label: label.trim(), color, dashed };
    });
    const cells = [...panel.querySelectorAll('[role="table"] [role="row"]')].map((r) => [...r.querySelectorAll('[role="columnheader"], [role="cell"]')].map((c) => c.textContent));
    const states = [...panel.querySelectorAll('[data-state]')].map((b) => b.dataset.state);
    return {
      title: panel.dataset.panel, legend, states, rows: cells, empty: panel.querySelector('[data-empty]')?.textContent, axis: window.axes[panel.dataset.panel],
      text: panel.textContent,
    };
  }));
}

/** describe writes it as text, to compare. */
export function describe(panels) {
  const lines = [];
  for (const { title, legend, states, rows, empty, axis } of panels) {
    lines.push(`## ${title}`);
    if (empty !== undefined) lines.push(`empty: ${empty}`);
    // Twelve digits of a sum differ from one machine to the next.
    if (axis) lines.push(`axis up to ${Number(axis.end.toPrecision(3))}`);
    for (const { label, color, dashed } of legend) lines.push(`${dashed ? '- -' : '---'} ${label} ${color}`);
    for (const s of states) lines.push(`=== ${s}`);
    for (const r of rows) lines.push(`| ${r.join(' | ')} |`);
  }
  return lines.join('\n') + '\n';
}
