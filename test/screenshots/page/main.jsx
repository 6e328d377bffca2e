// Renders one dashboard: /?board=canary&theme=dark&seconds=150,440&var-service=cart. When all panels are drawn, window.drawn is true.
import { createTheme, dateTime } from '@grafana/data';
import { GlobalStyles, PanelChrome, PortalContainer, Table, ThemeContext, TimeSeries } from '@grafana/ui';
import { useLayoutEffect } from 'react';
import { createRoot } from 'react-dom/client';
import 'uplot/dist/uPlot.min.css';
import { Source } from './data.js';
import { configured } from './fields.js';
import { StateTimeline } from './states.jsx';

const width = 1280;
const gap = 8;
const column = (width - gap) / 24;
const row = 38; // 30 and the gap, as in Grafana

const query = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: query.get('theme') ?? 'dark' } });

// What the test cannot read from the DOM, because it is drawn: the upper end of the axis and the largest value, by panel.
window.axes = {};

/** Marks draws annotations into a plot. */
function Marks({ panel, config, marks }) {
  useLayoutEffect(() => {
    config.addHook('draw', (u) => {
      const axis = Object.entries(u.scales).find(([key, scale]) => key !== 'x' && scale.max != null);
      window.axes[panel.title] = axis ? { end: axis[1].max, most: Math.max(...u.data.slice(1).flat().map(Number)) } : null;
      const { ctx, bbox } = u;
      ctx.save();
      for (const m of marks) {
        const x = Math.round(u.valToPos(m.time, 'x', true));
        ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName(m.color);
        ctx.lineWidth = 1;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.beginPath();
        ctx.moveTo(x - 4, bbox.top + bbox.height + 5);
        ctx.lineTo(x + 4, bbox.top + bbox.height + 5);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.fill();
      }
      ctx.restore();
    });
  }, [panel, config, marks]);
  return null;
}

function Panel({ panel, frames, marks, timeRange, w, h }) {
  if (frames.length === 0 || frames.every((f) => f.length === 0)) {
    return (
      <div data-empty style={{ width: w, height: h, display: 'grid', placeItems: 'center', textAlign: 'center', color: theme.colors.text.secondary }}>
        {panel.fieldConfig.defaults.noValue ?? 'No data'}
      </div>
    );
  }
  const data = configured(panel, frames, theme);
  if (panel.type === 'state-timeline') return <StateTimeline panel={panel} frames={frames} marks={marks} timeRange={timeRange} theme={theme} w={w} h={h} />;
  if (panel.type === 'table') return <Table data={data[0]} width={w} height={h} />;
  return (
    <TimeSeries frames={data} structureRev={1} timeRange={timeRange} timeZone="utc" width={w} height={h} legend={panel.options.legend} options={panel.options}>
      {(config) => <Marks panel={panel} config={config} marks={marks} />}
    </TimeSeries>
  );
}

function Board({ board, data, marks, timeRange }) {
  const end = Math.max(...board.panels.map((p) => p.gridPos.y + p.gridPos.h));
  return (
    <div id="board" style={{ position: 'relative', width, height: end * row + gap }}>
      {board.panels.map((p, i) => {
        const w = p.gridPos.w * column - gap;
        const h = p.gridPos.h * row - gap;
        const style = { position: 'absolute', left: gap + p.gridPos.x * column, top: gap + p.gridPos.y * row, width: w, height: h };
        if (p.type === 'row') return <h2 key={p.id} style={{ ...style, fontSize: 16, margin: 0, paddingTop: 6 }}>{p.title}</h2>;
        return (
          <div key={p.id} data-panel={p.title} style={style}>
            <PanelChrome width={w} height={h} title={p.title}>
              {(innerWidth, innerHeight) => <Panel panel={p} frames={data[i]} marks={marks} timeRange={timeRange} w={innerWidth} h={innerHeight} />}
            </PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

async function main() {
  const [board, times] = await Promise.all([
    fetch(`/dashboards/${query.get('board')}.json`).then((r) => r.json()), fetch('/times').then((r) => r.json()),
  ]);
  const part = query.get('seconds').split(',').map(Number);
  if (part.length === 2) Object.assign(times, { from: times.from + part[0] * 1000, to: times.from + part[1] * 1000 });
  const source = new Source(times);
  const wanted = Object.fromEntries([...query].filter(([k]) => k.startsWith('var-')).map(([k, v]) => [k.slice('var-'.length), v]));
  await source.choose(board.templating.list, wanted);
  const data = await Promise.all(board.panels.map((p) => (p.type === 'row' ? [] : source.panel(p, Math.round(p.gridPos.w * column)))));
  const marks = (await Promise.all(board.annotations.list.map((a) => source.marks(a)))).flat();
  window.marks = marks;
  const from = dateTime(source.from);
  const to = dateTime(source.to);
  const timeRange = { from, to, raw: { from, to } };
  createRoot(document.getElementById('root')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <Board board={board} data={data} marks={marks} timeRange={timeRange} />
      <PortalContainer />
    </ThemeContext.Provider>,
  );
  const plots = board.panels.filter((p, i) => p.type === 'timeseries' && data[i].some((f) => f.length > 0));
  const drawn = () => {
    if (!plots.every((p) => p.title in window.axes)) return setTimeout(drawn, 50);
    // The last frame is on the screen when the next one begins.
    return requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { window.drawn = true; }, 500)));
  };
  drawn();
}

main().catch((e) => { document.body.dataset.failed = String(e.stack ?? e); });
