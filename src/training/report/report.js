/* Shows values under the pointer in the charts of a report page, and updates a live page. */
'use strict';
(() => {
  const SVG = 'http://www.w3.org/2000/svg';
  const tip = document.getElementById('tip');
  let data = JSON.parse(document.getElementById('data').textContent);

  /* ---- Formats figures in the same way as the page ---- */

  const group = x => Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, ',');
  function duration(ms) {
    if (ms >= 60e3) {
      const s = Math.round(ms / 1e3), two = x => String(x).padStart(2, '0');
      return Math.floor(s / 3600) + ':' + two(Math.floor(s / 60) % 60) + ':' + two(s % 60);
    }
    const value = ms >= 1000 ? ms / 1000 : ms >= 1 || ms === 0 ? ms : ms * 1000;
    const unit = ms >= 1000 ? ' s' : ms >= 1 || ms === 0 ? ' ms' : ' \u00b5s';
    return value.toFixed(value >= 100 || value === 0 ? 0 : value >= 10 ? 1 : 2) + unit;
  }
  const words = {
    loss: x => x.toFixed(4),
    norm: x => x.toFixed(3),
    lr: x => (x === 0 ? '0' : x.toExponential(2)),
    count: group,
    ms: duration,
    percent: x => (100 * x).toFixed(1) + '%',
  };

  /* ---- Tooltips ---- */

  function element(name, attributes) {
    const node = document.createElementNS(SVG, name);
    for (const key of Object.keys(attributes))
      node.setAttribute(key, attributes[key]);
    return node;
  }

  function showTip(head, rows, figure, size, x, y) {
    const title = document.createElement('b');
    title.textContent = head;
    tip.replaceChildren(title, ...rows.map(row => {
      const line = document.createElement('div'), name = document.createElement('span');
      if (row.colour !== undefined) {
        const dot = document.createElement('i');
        dot.className = 'c' + row.colour;
        line.append(dot);
      }
      name.textContent = row.name;
      line.append(name, document.createTextNode(row.value));
      return line;
    }));
    const box = figure.querySelector('svg:not(.swatch)').getBoundingClientRect();
    const left = box.left + x / size[0] * box.width, top = box.top + y / size[1] * box.height;
    const w = tip.offsetWidth, h = tip.offsetHeight, wide = document.documentElement.clientWidth;
    const body = document.documentElement;
    tip.style.left = Math.max(4, left + 14 + w > wide - 4 ? left - w - 14 : left + 14) + body.scrollLeft + 'px';
    tip.style.top = Math.max(4, top - h - 10) + body.scrollTop + 'px';
    tip.style.visibility = 'visible';
  }

  function hide(figure) {
    tip.style.visibility = 'hidden';
    figure.querySelectorAll('.cross, .spot, .frame').forEach(mark => mark.remove());
  }

  /* Returns the index of the number nearest to x in an ascending list. */
  function nearest(list, x) {
    let low = 0, high = list.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < x)
        low = middle + 1;
      else
        high = middle;
    }
    return low > 0 && x - list[low - 1] <= list[low] - x ? low - 1 : low;
  }

  /* ---- Charts ---- */

  function showChart(figure, chart, x) {
    const [left, top, width, height] = chart.box, [x0, x1, y0, y1] = chart.range;
    const main = chart.lines.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    const step = main.x[nearest(main.x, x)];
    const svg = figure.querySelector('svg'), at = left + (step - x0) / (x1 - x0) * width, rows = [];
    hide(figure);
    svg.append(element('path', { class: 'cross', d: `M${at} ${top}v${height}` }));
    let high = top + height;
    chart.lines.forEach(line => {
      const i = nearest(line.x, step);
      if (line.x[i] !== step || line.y[i] === null)
        return;
      const y = top + (y1 - line.y[i]) / (y1 - y0) * height;
      high = Math.min(high, y);
      svg.append(element('circle', { class: 'spot c' + line.colour, cx: at, cy: y, r: 4 }));
      rows.push({ name: line.name, value: words[chart.unit](line.y[i]), colour: line.colour });
    });
    figure.dataset.step = step;
    showTip('step ' + group(step), rows, figure, chart.size, at, high);
  }

  function hookChart(chart) {
    const figure = document.getElementById(chart.id), svg = figure.querySelector('svg');
    const [left, , width] = chart.box, [x0, x1] = chart.range;
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * chart.size[0];
      if (x < left - 12 || x > left + width + 12)
        return hide(figure);
      return showChart(figure, chart, x0 + (x - left) / width * (x1 - x0));
    });
    svg.addEventListener('pointerleave', () => hide(figure));
    figure.addEventListener('blur', () => hide(figure));
    figure.addEventListener('keydown', event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === 'Escape')
        hide(figure);
      if (!by)
        return;
      const main = chart.lines.reduce((a, b) => (b.x.length > a.x.length ? b : a));
      const now = 'step' in figure.dataset ? nearest(main.x, Number(figure.dataset.step)) + by : 0;
      showChart(figure, chart, main.x[Math.max(0, Math.min(main.x.length - 1, now))]);
      event.preventDefault();
    });
  }

  /* ---- Timelines ---- */

  function showAction(figure, timeline, row, time) {
    const [x, y, w, h] = row.box, events = row.events;
    let start = 0, end = row.end, name = 'idle';
    for (let i = 0; i < events.length; i += 3) {
      const stop = events[i] + events[i + 1];
      if (events[i] <= time && time < stop) {
        [start, end, name] = [events[i], stop, events[i + 2]];
        break;
      }
      if (stop <= time)
        start = Math.max(start, stop);
      if (events[i] > time)
        end = Math.min(end, events[i]);
    }
    hide(figure);
    if (events.length === 0)
      return;
    const scale = w / row.end;
    figure.querySelector('svg').append(element('rect',
      { class: 'frame', x: x + start * scale, y, width: Math.max(1, (end - start) * scale), height: h }));
    showTip(name, [{ name: row.name, value: '' }, { name: 'start', value: duration(start) },
      { name: 'length', value: duration(end - start) }], figure, timeline.size, x + (start + end) / 2 * scale, y);
  }

  function hookTimeline(timeline) {
    const figure = document.getElementById(timeline.id), svg = figure.querySelector('svg');
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * timeline.size[0];
      const y = (event.clientY - box.top) / box.height * timeline.size[1];
      const row = timeline.rows.find(r => x >= r.box[0] && x < r.box[0] + r.box[2] && y >= r.box[1] && y <= r.box[1] + r.box[3]);
      if (row)
        showAction(figure, timeline, row, (x - row.box[0]) / row.box[2] * row.end);
      else
        hide(figure);
    });
    svg.addEventListener('pointerleave', () => hide(figure));
  }

  function hook() {
    data.charts.forEach(hookChart);
    data.timelines.forEach(hookTimeline);
  }

  /* ---- Live page: polls the figures and replaces the contents when they change ---- */

  let news = null, adopted = 0;

  /* The text comes from our own server; DOMParser runs no scripts. */
  function adopt(text) {
    const fresh = new DOMParser().parseFromString(text, 'text/html');
    const next = fresh.getElementById('data');
    if (!next)
      return;
    const open = [...document.querySelectorAll('details')].map(d => d.open);
    document.title = fresh.title;
    document.querySelectorAll('figure').forEach(hide);
    for (const name of ['header', 'main'])
      document.querySelector(name).replaceWith(document.adoptNode(fresh.querySelector(name)));
    document.querySelectorAll('details').forEach((d, i) => {
      d.open = Boolean(open[i]);
    });
    data = JSON.parse(next.textContent);
    hook();
    document.documentElement.dataset.news = ++adopted;
  }

  async function poll() {
    try {
      const text = await (await fetch('/data.json', { cache: 'no-store' })).text();
      const pointing = tip.style.visibility === 'visible';
      if (text !== news && !pointing) {
        if (news !== null)
          adopt(await (await fetch('/', { cache: 'no-store' })).text());
        news = text;
      }
      document.documentElement.dataset.live = 'yes';
    } catch (e) {
      document.documentElement.dataset.live = 'no';
    }
    setTimeout(poll, 2000);
  }

  hook();
  if (data.live)
    poll();

  /* report.html#chart=loss&step=12 points at that step, #timeline=timeline0&row=1&time=3.5 at that
     time in milliseconds: both show the tooltip. */
  function follow() {
    const at = new URLSearchParams(location.hash.slice(1));
    const param = key => Number(at.get(key) || 0);
    const chart = data.charts.find(c => c.id === at.get('chart'));
    const timeline = data.timelines.find(t => t.id === at.get('timeline'));
    const target = chart || timeline;
    if (!target)
      return;
    const svg = document.getElementById(target.id).querySelector('svg');
    const row = timeline && timeline.rows[param('row')];
    if (timeline && !row)
      return;
    svg.scrollIntoView({ block: 'center' });
    const box = svg.getBoundingClientRect();
    const x = chart ? chart.box[0] + (param('step') - chart.range[0]) / (chart.range[1] - chart.range[0]) * chart.box[2]
      : row.box[0] + param('time') / row.end * row.box[2];
    const y = chart ? chart.box[1] + chart.box[3] / 2 : row.box[1] + row.box[3] / 2;
    svg.dispatchEvent(new PointerEvent('pointermove', {
      clientX: box.left + x / target.size[0] * box.width, clientY: box.top + y / target.size[1] * box.height,
    }));
  }
  window.addEventListener('hashchange', follow);
  follow();
  document.documentElement.dataset.ready = '1';
})();
