// A small chart over the last seconds.
import {useEffect, useRef} from 'preact/hooks';
import uPlot from 'uplot';
import {short} from '../format';
import {cssColour, useColourScheme} from '../theme';

export interface Series {
  label: string;
  colour: string; // a custom property
  values: number[];
}

interface Props {
  title: string;
  times: number[];
  seconds: number;
  series: Series[];
}

const height = 132; // pixels, as .chart .plot in the style sheet

export function Chart({title, times, seconds, series}: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const scheme = useColourScheme();

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(options(element.clientWidth, seconds, series), [[], ...series.map(() => [])], element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({width: element.clientWidth, height}));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [scheme]);

  useEffect(() => {
    plot.current?.setData([times, ...series.map((line) => line.values)]);
  }, [times, scheme]);

  const latest = series.map((line) => `${line.label} ${short(line.values.at(-1) ?? 0)}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {series.length > 1 &&
          series.map((line) => (
            <span key={line.label} class="key">
              <i style={{background: `var(${line.colour})`}} />
              {line.label}
            </span>
          ))}
      </figcaption>
      <div class="plot" ref={box} role="img" aria-label={`${title}: now ${latest}`} />
    </figure>
  );
}

function options(width: number, seconds: number, series: readonly Series[]): uPlot.Options {
  const text = cssColour('--muted');
  const axis: uPlot.Axis = {
    stroke: text,
    font: '11px system-ui, sans-serif',
    grid: {stroke: cssColour('--line'), width: 1},
    ticks: {show: false},
  };
  return {
    width,
    height,
    cursor: {show: false},
    legend: {show: false},
    padding: [8, 16, 0, 0],
    scales: {
      // Always the same span, so that the lines move and the scale does not.
      x: {time: false, range: (_, __, newest) => [(newest ?? 0) - seconds, newest ?? 0]},
      y: {range: (_, __, highest) => [0, Math.max(1, (highest ?? 0) * 1.1)]},
    },
    axes: [
      {
        ...axis,
        size: 22,
        splits: (_, __, from, to) => [from, from + seconds / 2, to],
        values: (_, splits) => splits.map((at, i) => (i === splits.length - 1 ? 'now' : `${Math.round(at - (splits.at(-1) ?? 0))} s`)),
      },
      {
        ...axis,
        size: 44,
        space: 34,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5, 1e6],
        values: (_, splits) => splits.map(short),
      },
    ],
    series: [
      {},
      ...series.map((line): uPlot.Series => {
        const colour = cssColour(line.colour);
        return {label: line.label, stroke: colour, width: 1.75, points: {show: false}};
      }),
    ],
  };
}
