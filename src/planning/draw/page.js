/* Draws the timeline of an HTML page from the data in the page, and handles zooming, scrolling
 * and pointing. */
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const main = document.querySelector('main');
  const chart = document.getElementById('chart');
  const tip = document.getElementById('tip');
  const ctx = chart.getContext('2d');
  const FONT = '"DejaVu Sans", Verdana, Helvetica, Arial, sans-serif';
  const AXIS = 26, RIGHT = 20, TILE = 64, COLUMN = 3, DENSE = 2.5;
  const F = 0, B = 1, I = 2, W = 3, LAST_RECV = 7;
  const LANES = ['', 'send', 'receive', 'collective', 'wait'];

  /* ---- Data: each lane of each rank is one row with its columns in arrays. ---- */

  function readLane(numbers) {
    const lane = { n: 0, start: [], end: [], kind: [], stage: [], micro: [], pair: [], bytes: [], peer: [] };
    for (let i = 0; i < numbers.length;) {
      const start = numbers[i++], length = numbers[i++], code = numbers[i++];
      lane.start.push(start);
      lane.end.push(start + length);
      lane.kind.push(code & 31);
      lane.stage.push(numbers[i++]);
      lane.micro.push(numbers[i++]);
      lane.pair.push(code & 32 ? { kind: numbers[i++], stage: numbers[i++], micro: numbers[i++] } : null);
      lane.bytes.push(code & 64 ? numbers[i++] : 0);
      lane.peer.push(code & 64 ? numbers[i++] : -1);
      lane.n++;
    }
    return lane;
  }

  const rows = [];
  data.traces.forEach((trace, index) => {
    trace.end = trace.makespan * trace.factor;
    trace.ranks.forEach((rank, number) => {
      rank.lanes.forEach((numbers, kind) => {
        if (kind > 0 && numbers.length === 0 && !trace.ranks.some(r => r.lanes[kind].length > 0))
          return;
        const lane = readLane(numbers);
        for (let i = 0; i < lane.n; i++) {
          lane.start[i] *= trace.factor;
          lane.end[i] *= trace.factor;
        }
        rows.push({ trace, index, rank: number, stages: rank.stages, kind, lane, memory: rank.memory });
      });
    });
  });
  const anyMessages = rows.some(row => row.kind > 0);

  const view = { begin: 0, end: data.end, scroll: 0 };
  let lanes = data.lanes, hover = null, width = 0, height = 0, left = 70, placed = [], total = 0, colours = {};
  let painted = 0, anyShares = false;

  /* ---- Text ---- */

  const number = x => String(+x.toPrecision(9));
  const time = t => number(t * data.show) + (data.unit ? ' ' + data.unit : '');
  const name = (kind, stage, micro) => stage + data.kinds[kind] + (kind <= LAST_RECV ? micro : '');
  function title(lane, i) {
    const p = lane.pair[i];
    return name(lane.kind[i], lane.stage[i], lane.micro[i]) + (p ? ' & ' + name(p.kind, p.stage, p.micro) : '');
  }
  function bytes(n) {
    const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
    let k = 0, shown = n;
    while (shown >= 1024 && k + 1 < units.length) {
      shown /= 1024;
      k++;
    }
    return (k === 0 ? n : shown.toPrecision(4) + ' ' + units[k] + ' (' + n + ')') + (k === 0 ? ' bytes' : '');
  }

  /* ---- Layout ---- */

  const timeToX = t => left + (t - view.begin) / (view.end - view.begin) * (width - left - RIGHT);
  const xToTime = x => view.begin + (x - left) / (width - left - RIGHT) * (view.end - view.begin);

  function place() {
    width = main.clientWidth;
    height = main.clientHeight;
    const shown = rows.filter(row => row.kind === 0 || lanes);
    const headings = data.traces.length > 1 ? data.traces.length * 22 : 4;
    const units = shown.reduce((sum, row) => sum + (row.kind === 0 ? 1 : 0.4), 0);
    const unit = Math.max(9, Math.min(38, (height - AXIS - headings) / units));
    let y = 0, last = -1;
    placed = [];
    for (const row of shown) {
      if (row.index !== last)
        y += data.traces.length > 1 ? 22 : 4;
      last = row.index;
      const h = row.kind === 0 ? unit : Math.max(5, unit * 0.4);
      placed.push({ row, y, h: h - (h >= 14 ? 3 : 1) });
      y += h;
    }
    total = y;
    ctx.font = '11px ' + FONT;
    const maxRanks = Math.max(...data.traces.map(t => t.ranks.length));
    left = Math.ceil(ctx.measureText('rank ' + (maxRanks - 1)).width) + 22;
    view.scroll = Math.max(0, Math.min(view.scroll, total - (height - AXIS)));
    const ratio = window.devicePixelRatio || 1;
    chart.width = Math.round(width * ratio);
    chart.height = Math.round(height * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    for (const key of ['paper', 'ink', 'soft', 'idle', 'line', 'mark'])
      colours[key] = style.getPropertyValue('--' + key).trim();
  }

  /* Returns the first event of a lane that ends after t.  Ends are nearly always sorted. */
  function firstAfter(lane, t) {
    let low = 0, high = lane.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.end[middle] > t)
        high = middle;
      else
        low = middle + 1;
    }
    while (low > 0 && lane.end[low - 1] > t)
      low--;
    return low;
  }

  /* ---- Painting ---- */

  const shade = (row, kind, stage) => {
    const all = data.colours[kind], chunk = Math.max(0, row.stages.indexOf(stage));
    return all[data.traces[row.index].shades[Math.min(chunk, data.traces[row.index].shades.length - 1)]];
  };

  function box(x, y, w, h, kind, colour, banded) {
    ctx.fillStyle = colour;
    ctx.fillRect(x, y, w, h);
    if (!banded)
      return;
    ctx.fillStyle = data.bands[kind];
    const band = Math.min(h / 7, 3.2);
    if (kind === I || kind === B)
      ctx.fillRect(x, y, w, band);
    if (kind === W || kind === B)
      ctx.fillRect(x, y + h - band, w, band);
  }

  /* The labels of a cell, the most detailed first: 2F0, F0, 0. */
  const labels = [
    name,
    (kind, stage, micro) => data.kinds[kind][0] + (kind <= LAST_RECV ? micro : ''),
    (kind, stage, micro) => (kind <= LAST_RECV ? String(micro) : ''),
  ];
  const fontFor = h => Math.min(12, Math.floor(h * 0.75));

  /* Chooses the most detailed label that fits into nearly all visible cells; all cells use it. */
  function chooseDetail(trace) {
    const fits = [0, 0, 0], scale = (width - left - RIGHT) / (view.end - view.begin);
    let n = 0;
    for (const p of placed.filter(q => q.row.trace === trace && q.row.kind === 0)) {
      const lane = p.row.lane, first = firstAfter(lane, view.begin);
      ctx.font = fontFor(p.h) + 'px ' + FONT;
      for (let i = first; i < lane.n && i < first + 200 && lane.start[i] < view.end && n < 3000; i++, n++)
        labels.forEach((print, k) => {
          const text = print(lane.kind[i], lane.stage[i], lane.micro[i]);
          fits[k] += ctx.measureText(text).width <= (lane.end[i] - lane.start[i]) * scale - 6;
        });
    }
    const first = trace.shades.length > 1 ? 0 : 1;
    const best = [0, 1, 2].find(k => k >= first && fits[k] >= 0.97 * n);
    trace.detail = best === undefined ? 2 : best;
  }

  function label(x, y, w, h, kind, stage, micro, from) {
    const size = fontFor(h);
    if (size < 7 || w < 9)
      return;
    ctx.font = size + 'px ' + FONT;
    const print = labels.slice(from).find(f => ctx.measureText(f(kind, stage, micro)).width <= w - 5);
    const text = print ? print(kind, stage, micro) : '';
    if (!text)
      return;
    ctx.fillStyle = '#1a1a1a';
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText(text, x + w / 2, y + h / 2 + 0.5);
  }

  function cell(row, i, x, end, y, h) {
    const lane = row.lane, pair = lane.pair[i], gap = end - x >= 3 ? 0.5 : 0, w = end - x - 2 * gap;
    const half = (top, hh, kind, stage, micro) => {
      box(x + gap, top, w, hh, kind, shade(row, kind, stage), hh >= 6 && w >= 1.5);
      if (row.kind === 0)
        label(x + gap, top, w, hh, kind, stage, micro, row.trace.detail);
    };
    painted++;
    if (!pair) {
      half(y, h, lane.kind[i], lane.stage[i], lane.micro[i]);
    } else if (lane.kind[i] === F) {
      half(y, h / 2, F, lane.stage[i], lane.micro[i]);
      half(y + h / 2, h / 2, pair.kind, pair.stage, pair.micro);
    } else {
      half(y, h / 2, pair.kind, pair.stage, pair.micro);
      half(y + h / 2, h / 2, lane.kind[i], lane.stage[i], lane.micro[i]);
    }
    if (hover && hover.row.trace === row.trace && hover.i >= 0 && hover.row.lane.micro[hover.i] === lane.micro[i] && w > 2) {
      const same = hover.row === row && hover.i === i;
      ctx.strokeStyle = colours.mark;
      ctx.lineWidth = same ? 2.5 : 1;
      ctx.strokeRect(x + gap + ctx.lineWidth / 2, y + ctx.lineWidth / 2, Math.max(1, w - ctx.lineWidth), h - ctx.lineWidth);
    }
  }

  /* Paints a row.  If a tile has too many events to distinguish, its columns show shares of the time. */
  function paintRow(p, y) {
    const lane = p.row.lane, plot = width - left - RIGHT;
    const x0 = Math.max(left, timeToX(0)), x1 = Math.min(width - RIGHT, timeToX(p.row.trace.end));
    if (x1 <= x0)
      return;
    ctx.fillStyle = colours.idle;
    ctx.fillRect(x0, y, x1 - x0, p.h);
    const tiles = new Uint32Array(Math.ceil(plot / TILE) + 1), wide = new Float32Array(tiles.length);
    const first = firstAfter(lane, view.begin);
    const tileOf = x => Math.max(0, Math.min(tiles.length - 1, Math.floor((x - left) / TILE)));
    let last = first;
    for (; last < lane.n && lane.start[last] < view.end; last++) {
      const x = timeToX(lane.start[last]), t = tileOf(x);
      tiles[t]++;
      wide[t] += Math.min(TILE, timeToX(lane.end[last]) - x);
    }
    let shares = null, all = 0, sum = 0;
    tiles.forEach((n, t) => {
      all += n;
      sum += wide[t];
    });
    const dense = sum < 1.2 * DENSE * all; /* of the whole row, so that neighbouring tiles do not differ by chance */
    for (let i = first; i < last; i++) {
      const stop = i + 1 < lane.n && p.row.kind === 0 ? Math.min(lane.end[i], lane.start[i + 1]) : lane.end[i];
      const x = Math.max(left, timeToX(lane.start[i])), end = Math.min(width - RIGHT, timeToX(stop));
      if (end <= x)
        continue;
      let piece = x;
      for (let t = tileOf(x); t < tiles.length && left + t * TILE < end; t++) {
        if (tiles[t] < (dense ? 1 : 4) || wide[t] >= DENSE * (dense ? 1.6 : 1) * tiles[t])
          continue;
        const from = Math.max(x, left + t * TILE), to = Math.min(end, left + (t + 1) * TILE);
        if (from > piece)
          cell(p.row, i, piece, from, y, p.h);
        shares = shares || new Float32Array((Math.ceil(plot / COLUMN) + 1) * data.kinds.length);
        addShares(shares, lane, i, from - left, to - left);
        piece = to;
      }
      if (end > piece)
        cell(p.row, i, piece, end, y, p.h);
    }
    if (shares)
      paintShares(shares, y, p.h);
  }

  function addShares(shares, lane, i, from, to) {
    const n = data.kinds.length, pair = lane.pair[i];
    for (let c = Math.floor(from / COLUMN); c * COLUMN < to; c++) {
      const part = (Math.min(to, (c + 1) * COLUMN) - Math.max(from, c * COLUMN)) / COLUMN;
      if (part > 0) {
        shares[c * n + lane.kind[i]] += pair ? part / 2 : part;
        if (pair)
          shares[c * n + pair.kind] += part / 2;
      }
    }
  }

  function paintShares(shares, y, h) {
    const n = data.kinds.length, plot = width - left - RIGHT;
    anyShares = true;
    for (let c = 0; c * n < shares.length; c++) {
      let sum = 0;
      for (let k = 0; k < n; k++) {
        const share = shares[c * n + k];
        if (share <= 0)
          continue;
        const top = Math.min(1, sum + share);
        ctx.fillStyle = data.colours[k][1];
        ctx.fillRect(left + c * COLUMN, y + h * (1 - top), Math.min(COLUMN, plot - c * COLUMN), h * (top - sum));
        sum = top;
        painted++;
      }
    }
  }

  function step(min) {
    const power = Math.pow(10, Math.floor(Math.log10(min)));
    return [1, 2, 5, 10, 20].map(s => s * power).find(s => s >= min * (1 - 1e-9));
  }

  function paintAxis() {
    const y = Math.min(total + 4, height - AXIS), plot = width - left - RIGHT;
    ctx.fillStyle = colours.paper;
    ctx.fillRect(0, y, width, AXIS);
    ctx.fillStyle = colours.line;
    ctx.fillRect(left, y, plot, 1);
    ctx.font = '10px ' + FONT;
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'center';
    const by = step((view.end - view.begin) / plot * 90);
    for (let k = Math.ceil(view.begin / by - 1e-9); k * by <= view.end * (1 + 1e-9); k++) {
      const x = timeToX(k * by);
      ctx.fillStyle = colours.line;
      ctx.fillRect(x - 0.5, y, 1, 5);
      ctx.fillStyle = colours.ink;
      ctx.fillText(number(k * by * data.show), x, y + 14);
    }
    ctx.fillStyle = colours.soft;
    ctx.textAlign = 'right';
    ctx.fillText(data.unit || 'time', left - 14, y + 14);
  }

  function paint() {
    painted = 0;
    anyShares = false;
    data.traces.forEach(chooseDetail);
    ctx.fillStyle = colours.paper;
    ctx.fillRect(0, 0, width, height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, 0, width, height - AXIS);
    ctx.clip();
    let last = -1, named = -100;
    for (const p of placed) {
      const y = p.y - view.scroll;
      if (p.row.index !== last && data.traces.length > 1) {
        ctx.font = 'bold 12px ' + FONT;
        ctx.fillStyle = colours.ink;
        ctx.textAlign = 'left';
        ctx.textBaseline = 'middle';
        ctx.fillText(p.row.trace.heading, 16, y - 9);
      }
      last = p.row.index;
      if (y + p.h < 0 || y > height - AXIS)
        continue;
      paintRow(p, y);
      const size = p.row.kind === 0 ? 11 : 8;
      if (y + p.h / 2 - named < size + 1)
        continue;
      named = y + p.h / 2;
      ctx.font = size + 'px ' + FONT;
      ctx.fillStyle = p.row.kind === 0 ? colours.ink : colours.soft;
      ctx.textAlign = 'right';
      ctx.textBaseline = 'middle';
      ctx.fillText(p.row.kind === 0 ? 'rank ' + p.row.rank : LANES[p.row.kind], left - 6, named + 0.5);
    }
    ctx.restore();
    paintAxis();
    const root = document.documentElement;
    root.dataset.painted = painted;
    document.querySelector('.shares').hidden = !anyShares;
    root.dataset.view = view.begin + ' ' + view.end;
  }

  let asked = false;
  function repaint() {
    if (asked)
      return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      paint();
    });
  }

  /* ---- Tooltip of the action under the mouse ---- */

  function memoryAt(row, t) {
    let amount = null;
    for (let i = 0; i < row.memory.length && row.memory[i] * row.trace.factor <= t; i += 2)
      amount = row.memory[i + 1];
    return amount;
  }

  function describe(row, i, t) {
    const lane = row.lane, lines = [];
    const where = 'rank ' + row.rank + (data.traces.length > 1 && row.trace.name ? ' of ' + row.trace.name : '');
    if (i < 0) {
      let before = firstAfter(lane, t);
      const from = before > 0 ? lane.end[before - 1] : 0;
      const to = before < lane.n ? lane.start[before] : row.trace.end;
      lines.push('idle', where, 'start ' + time(from), 'length ' + time(to - from));
    } else {
      lines.push(title(lane, i), where + (row.kind > 0 ? ', ' + LANES[row.kind] : ''),
        'start ' + time(lane.start[i]), 'length ' + time(lane.end[i] - lane.start[i]));
      if (lane.bytes[i] > 0)
        lines.push('size ' + bytes(lane.bytes[i]));
      if (lane.peer[i] >= 0)
        lines.push((row.kind === 1 ? 'to' : 'from') + ' rank ' + lane.peer[i]);
    }
    const amount = memoryAt(row, i < 0 ? t : lane.start[i]);
    if (amount !== null)
      lines.push('memory ' + number(amount));
    return lines;
  }

  function show(p, i, t, x, y) {
    hover = { row: p.row, i, place: p };
    const lines = describe(p.row, i, t), head = document.createElement('b');
    head.textContent = lines[0];
    tip.replaceChildren(head, document.createTextNode('\n' + lines.slice(1).join('\n')));
    tip.style.visibility = 'visible';
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, x + 16 + w > width ? x - w - 12 : x + 16) + 'px';
    tip.style.top = Math.max(4, Math.min(y + 16, height - h - 4)) + 'px';
    repaint();
  }

  function hide() {
    tip.style.visibility = 'hidden';
    if (hover)
      repaint();
    hover = null;
  }

  function point(x, y) {
    const t = xToTime(x);
    const p = y < height - AXIS && x >= left && placed.find(q => y >= q.y - view.scroll && y <= q.y - view.scroll + q.h);
    if (!p || t < 0 || t > p.row.trace.end)
      return hide();
    let i = firstAfter(p.row.lane, t);
    if (i >= p.row.lane.n || p.row.lane.start[i] > t)
      i = -1;
    return show(p, i, t, x, y);
  }

  /* ---- Moving ---- */

  function setView(begin, end) {
    const min = data.end * 1e-7;
    let span = Math.max(min, Math.min(end - begin, data.end));
    begin = Math.max(0, Math.min(begin, data.end - span));
    view.begin = begin;
    view.end = begin + span;
    repaint();
  }

  function zoom(by, t) {
    setView(t - (t - view.begin) * by, t + (view.end - t) * by);
  }

  function scroll(by) {
    view.scroll = Math.max(0, Math.min(view.scroll + by, total - (height - AXIS)));
    repaint();
  }

  /* Selects the next or previous action or row, for the keyboard. */
  function select(along, down) {
    let at = hover ? placed.indexOf(hover.place) : 0, i = hover && hover.i >= 0 ? hover.i + along : 0;
    if (down !== 0) {
      const t = hover && hover.i >= 0 ? hover.row.lane.start[hover.i] : view.begin;
      at = Math.max(0, Math.min(placed.length - 1, at + down));
      i = Math.min(firstAfter(placed[at].row.lane, t), placed[at].row.lane.n - 1);
    }
    const p = placed[at], lane = p.row.lane;
    if (lane.n === 0)
      return;
    i = Math.max(0, Math.min(lane.n - 1, i));
    if (lane.start[i] < view.begin || lane.end[i] > view.end) {
      const half = (view.end - view.begin) / 2;
      setView(lane.start[i] - half, lane.start[i] + half);
    }
    if (p.y < view.scroll || p.y + p.h > view.scroll + height - AXIS)
      scroll(p.y - view.scroll - (height - AXIS) / 2);
    show(p, i, lane.start[i], timeToX((lane.start[i] + lane.end[i]) / 2), p.y - view.scroll + p.h);
  }

  const keys = {
    ArrowLeft: () => setView(view.begin - (view.end - view.begin) / 8, view.end - (view.end - view.begin) / 8),
    ArrowRight: () => setView(view.begin + (view.end - view.begin) / 8, view.end + (view.end - view.begin) / 8),
    ArrowUp: () => scroll(-40),
    ArrowDown: () => scroll(40),
    '+': () => zoom(0.7, (view.begin + view.end) / 2),
    '=': () => zoom(0.7, (view.begin + view.end) / 2),
    '-': () => zoom(1 / 0.7, (view.begin + view.end) / 2),
    0: () => setView(0, data.end),
    n: () => select(1, 0),
    p: () => select(-1, 0),
    j: () => select(0, 1),
    k: () => select(0, -1),
    l: () => {
      if (!anyMessages)
        return;
      lanes = !lanes;
      hide();
      resize();
    },
    Escape: hide,
  };

  document.addEventListener('keydown', event => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && Object.hasOwn(keys, event.key)) {
      keys[event.key]();
      event.preventDefault();
    }
  });

  chart.addEventListener('wheel', event => {
    event.preventDefault();
    const r = chart.getBoundingClientRect();
    if (event.shiftKey)
      scroll(event.deltaY + event.deltaX);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
      setView(view.begin + xToTime(left + event.deltaX) - view.begin, view.end + xToTime(left + event.deltaX) - view.begin);
    else
      zoom(Math.pow(1.0015, event.deltaY), Math.max(0, xToTime(event.clientX - r.left)));
    point(event.clientX - r.left, event.clientY - r.top);
  }, { passive: false });

  let grip = null;
  chart.addEventListener('pointerdown', event => {
    grip = { x: event.clientX, y: event.clientY, begin: view.begin, end: view.end, scroll: view.scroll };
    chart.setPointerCapture(event.pointerId);
    chart.focus();
  });
  const release = () => {
    grip = null;
  };
  chart.addEventListener('pointerup', release);
  chart.addEventListener('pointercancel', release);
  chart.addEventListener('pointermove', event => {
    const r = chart.getBoundingClientRect();
    if (grip) {
      const by = (grip.x - event.clientX) / (width - left - RIGHT) * (grip.end - grip.begin);
      setView(grip.begin + by, grip.end + by);
      scroll(grip.scroll + grip.y - event.clientY - view.scroll);
    }
    point(event.clientX - r.left, event.clientY - r.top);
  });
  chart.addEventListener('pointerleave', hide);

  /* ---- The rest of the page ---- */

  function addLegend(words, draw, n) {
    const item = document.createElement('li'), swatch = document.createElement('canvas');
    const ratio = window.devicePixelRatio || 1, w = 22 * n - 1, h = 14;
    swatch.width = w * ratio;
    swatch.height = h * ratio;
    swatch.style.width = w + 'px';
    swatch.style.height = h + 'px';
    item.append(swatch, document.createTextNode(words));
    document.getElementById('legend').append(item);
    const own = swatch.getContext('2d');
    own.scale(ratio, ratio);
    draw(own, w, h);
  }

  function legend() {
    document.getElementById('legend').replaceChildren();
    const boxOn = (own, x, y, w, h, kind, colour) => {
      own.fillStyle = colour;
      own.fillRect(x, y, w, h);
      own.fillStyle = data.bands[kind];
      if (kind === I || kind === B)
        own.fillRect(x, y, w, h / 7);
      if (kind === W || kind === B)
        own.fillRect(x, y + h * 6 / 7, w, h / 7);
    };
    const drawn = kind => rows.some(row => (row.kind === 0 || lanes) &&
      (row.lane.kind.includes(kind) || row.lane.pair.some(p => p !== null && p.kind === kind)));
    data.seen.forEach(kind => {
      if (drawn(kind))
        addLegend(data.words[kind], (own, w, h) => boxOn(own, 0, 0, w, h, kind, data.colours[kind][1]), 1);
    });
    if (rows.some(row => row.lane.pair.some(p => p !== null)))
      addLegend('an overlapped pair', (own, w, h) => {
        boxOn(own, 0, 0, w, h / 2, F, data.colours[F][1]);
        boxOn(own, 0, h / 2, w, h / 2, B, data.colours[B][1]);
      }, 1);
    addLegend('idle', (own, w, h) => {
      own.fillStyle = colours.idle;
      own.fillRect(0, 0, w, h);
    }, 1);
    const shades = data.traces.map(t => t.shades).reduce((a, b) => (b.length > a.length ? b : a));
    if (shades.length > 1)
      addLegend('shades: first to last stage of a rank', (own, w, h) => {
        shades.slice(0, 8).forEach((s, i) => {
          own.fillStyle = data.colours[F][shades[Math.floor(i * (shades.length - 1) / Math.max(1, Math.min(8, shades.length) - 1))]];
          own.fillRect(i * 22, 0, 21, h);
        });
      }, Math.min(8, shades.length));
  }

  document.querySelector('h1').textContent = data.title;
  const figures = document.querySelector('header p');
  data.traces.forEach(trace => {
    if (figures.childNodes.length > 0)
      figures.append(document.createElement('br'));
    if (data.traces.length > 1 || data.title !== trace.heading) {
      const b = document.createElement('b');
      b.textContent = trace.heading;
      figures.append(b, document.createTextNode('\u2002'));
    }
    figures.append(document.createTextNode(trace.figures));
  });
  document.querySelector('.lanes').hidden = !anyMessages;
  chart.setAttribute('aria-label', data.title);

  function resize() {
    place();
    legend();
    place();
    paint();
  }
  window.addEventListener('resize', resize);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', resize);
  resize();

  /* page.html#from=10&to=20 shows that time; #rank=2&time=5.5 (&trace=1&lane=1) shows the
     tooltip of that moment. */
  function follow() {
    const at = new URLSearchParams(location.hash.slice(1));
    const param = key => Number(at.get(key) || 0);
    if (param('to') > param('from')) {
      setView(param('from') / data.show, param('to') / data.show);
      paint();
    }
    if (!at.has('rank') || !at.has('time'))
      return;
    const p = placed.find(q => q.row.rank === param('rank') && q.row.index === param('trace') && q.row.kind === param('lane'));
    if (!p)
      return;
    if (p.y + p.h > view.scroll + height - AXIS || p.y < view.scroll)
      scroll(p.y - view.scroll - height / 2);
    const r = chart.getBoundingClientRect();
    chart.dispatchEvent(new PointerEvent('pointermove', {
      clientX: r.left + timeToX(param('time') / data.show), clientY: r.top + p.y - view.scroll + p.h / 2,
    }));
    paint();
  }
  window.addEventListener('hashchange', follow);
  follow();
  document.documentElement.dataset.ready = '1';
})();
