// Draws a state timeline. Grafana's own is in the application, of which no package exists; this one follows its layout.
import { dateTimeFormat } from '@grafana/data';

/** blocks are the stretches of time with one value. A value holds until the next one; a gap ends it. */
export function blocks({ fields: [time, value] }) {
  const step = time.config.interval;
  const out = [];
  time.values.forEach((t, i) => {
    const last = out.at(-1);
    if (last && last.value === value.values[i] && last.to >= t) last.to = t + step;
    else out.push({ value: value.values[i], from: t, to: t + step });
  });
  // Two states that follow each other have no overlap.
  out.forEach((b, i) => { if (out[i + 1]) b.to = Math.min(b.to, out[i + 1].from); });
  return out;
}

const clock = (t) => dateTimeFormat(t, { format: 'HH:mm:ss', timeZone: 'utc' });

export function StateTimeline({ panel, frames, marks, timeRange, theme, w, h }) {
  const [from, to] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  const left = 8 + Math.max(...frames.map((f) => 7 * f.name.length));
  const [axis, legend] = [22, 26];
  const row = (h - axis - legend) / frames.length;
  const x = (t) => left + ((w - left - 8) * (Math.min(Math.max(t, from), to) - from)) / (to - from);
  const shown = (v) => panel.fieldConfig.defaults.mappings[0].options[v];
  const color = (v) => theme.visualization.getColorByName(shown(v).color);
  const minute = 60_000;
  const every = [1, 2, 5, 10, 15, 30, 60].map((n) => n * minute).find((n) => (to - from) / n <= w / 90) ?? 120 * minute;
  const ticks = [];
  for (let t = Math.ceil(from / every) * every; t <= to; t += every) ticks.push(t);
  const all = frames.map((f) => ({ name: f.name, blocks: blocks(f).filter((b) => b.to > from && b.from < to) }));
  const used = panel.fieldConfig.defaults.mappings[0].options;
  const values = Object.keys(used).filter((v) => all.some((f) => f.blocks.some((b) => String(b.value) === v)));
  return (
    <div data-states style={{ width: w, height: h }}>
      <svg width={w} height={h - legend} style={{ display: 'block', font: '12px Inter, Helvetica, Arial, sans-serif' }}>
        {all.map((f, i) => (
          <g key={f.name}>
            <text x={left - 8} y={i * row + row / 2 + 4} textAnchor="end" fill={theme.colors.text.primary}>{f.name}</text>
            {f.blocks.map((b) => (
              <g key={b.from} data-state={`${f.name} ${shown(b.value).text} ${clock(b.from)} to ${clock(b.to)}`}>
                <rect x={x(b.from)} y={i * row + row * 0.1} width={Math.max(1, x(b.to) - x(b.from))} height={row * 0.8} fill={color(b.value)} fillOpacity={panel.fieldConfig.defaults.custom.fillOpacity / 100} />
                {x(b.to) - x(b.from) > 8 * shown(b.value).text.length && <text x={x(b.from) + 4} y={i * row + row / 2 + 4} fill={theme.colors.getContrastText(color(b.value))}>{shown(b.value).text}</text>}
              </g>
            ))}
          </g>
        ))}
        {marks.filter((m) => m.time >= from && m.time <= to).map((m) => (
          <line key={m.time + m.text} x1={x(m.time)} x2={x(m.time)} y1={0} y2={h - axis - legend} stroke={theme.visualization.getColorByName(m.color)} strokeDasharray="4 4" />
        ))}
        {ticks.map((t) => <text key={t} x={x(t)} y={h - legend - 6} textAnchor="middle" fill={theme.colors.text.primary}>{dateTimeFormat(t, { format: 'HH:mm', timeZone: 'utc' })}</text>)}
      </svg>
      <div style={{ height: legend, display: 'flex', gap: 14, alignItems: 'center', paddingLeft: 8, fontSize: 12 }}>
        {values.map((v) => <span key={v}><span style={{ display: 'inline-block', width: 14, height: 4, borderRadius: 2, marginRight: 8, verticalAlign: 'middle', background: color(v) }} />{used[v].text}</span>)}
      </div>
    </div>
  );
}
