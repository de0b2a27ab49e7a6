'use strict';
// Everything here is drawn with textContent: names and reasons are texts of users.

function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === 'class') e.className = v; else if (k.startsWith('aria-') || k === 'role' || k === 'tabindex' || k === 'title') e.setAttribute(k, v); else e[k] = v;
  }
  for (const c of children) e.append(c instanceof Node ? c : String(c));
  return e;
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s >= 86400) return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
  if (s >= 3600) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  if (s >= 60) return Math.floor(s / 60) + ' min';
  return s + ' s';
}

function mib(n) {
  if (n >= 10 * 1048576) return Math.floor(n / 1048576) + ' TiB';
  if (n >= 1024) return Math.floor(n / 1024) + ' GiB';
  return n + ' MiB';
}

function timeOf(i, now) {
  const at = t => t ? Date.parse(t) : 0, start = at(i.start), end = at(i.end);
  if ((i.state === 'Waiting' || i.state === 'NeedsAction') && !i.nodes) {
    return span(now - at(i.submitted)) + (start > now ? ', starts in ' + span(start - now) : '');
  }
  return (start ? span(now - start) : '') + (end > now ? ', ' + span(end - now) + ' left' : '');
}

function nameOf(i) {
  if (i.kind === 'array') return i.name + ' [' + i.jobs + ' tasks]';
  if (i.kind === 'group') return i.name + ' [' + i.pods.length + ' pods]';
  return i.name;
}

function targetOf(i) {
  return i.kind === 'pod' || i.kind === 'group' && !i.job ? i.pods[0] : String(i.job);
}

function numbers(list) {
  const out = [];
  for (const part of (list || '').split(',')) {
    const [a, b] = part.split('-').map(Number);
    if (part === '' || Number.isNaN(a)) continue;
    for (let n = a; n <= (b === undefined ? a : b) && n < 16384; n++) out.push(n);
  }
  return out;
}

// coresOf tells for each core who has it: an index into the occupants, or -1.
function coresOf(n) {
  const total = (n.sockets || 0) * (n.coresPerSocket || 0);
  if (total <= 0 || total > 16384) return null;
  const cores = new Array(total).fill(-1);
  (n.occupants || []).forEach((o, at) => { for (const c of numbers(o.cores)) if (c < total) cores[c] = at; });
  return cores;
}

function drawCores(n) {
  const cores = coresOf(n);
  const grid = el('span', { class: 'cores', 'aria-hidden': 'true' });
  if (!cores || cores.length > 256) return grid;
  for (const at of cores) {
    const o = at >= 0 ? n.occupants[at] : null;
    grid.append(el('i', { class: o ? (o.pod ? 'pod' : 'job') + (at % 2 ? ' alt' : '') : '' }));
  }
  return grid;
}

function drawNode(n, small) {
  const used = n.total.cpus ? n.used.cpus + ' of ' + n.total.cpus + ' CPUs' : '';
  const gpus = n.total.gpus ? ', ' + n.used.gpus + ' of ' + n.total.gpus + ' GPUs' : '';
  const label = n.name + ', ' + n.role + ', ' + n.health + ', ' + used + gpus;
  const occupants = n.occupants || [];
  const busy = !occupants.length ? '' : occupants[0].pod ? ' busy' : ' slurmbusy';
  const b = el('button', { class: 'node ' + n.health + (small ? busy : ''), 'aria-label': label, title: label });
  b.dataset.node = n.name;
  if (small) return b;
  const runs = occupants.map(o => o.pod ? o.name : o.job + ' ' + o.name).join(', ');
  b.append(el('b', {}, n.name), el('em', {}, n.role + (n.kubernetes && n.kubernetes !== n.name ? ' on ' + n.kubernetes : '')));
  b.append(drawCores(n), el('em', {}, used + gpus), el('em', {}, n.health === 'up' ? runs || (n.role === 'kubernetes' ? (n.otherPods || 0) + ' pods' : 'free') : n.health + (n.causes ? ': ' + (n.causes[0].reason || n.causes[0].what) : '')));
  return b;
}

function meter(label, u, key, print) {
  const total = u.total[key];
  if (!total && !u.asked[key]) return null;
  const track = el('div', { class: 'track', 'aria-hidden': 'true' });
  for (const [part, cls] of [['jobs', 'job'], ['pods', 'pod'], ['away', 'away']]) {
    const i = el('i', { class: cls });
    i.style.width = total ? 100 * u[part][key] / total + '%' : '0';
    track.append(i);
  }
  const text = print(u.jobs[key]) + ' Slurm jobs, ' + print(u.pods[key]) + ' pods, ' + print(u.free[key]) + ' free, ' + print(u.away[key]) + ' out of service, of ' + print(total) + '; ' + print(u.asked[key]) + ' wanted';
  return el('div', { class: 'meter' }, el('strong', {}, label), track, el('span', {}, text));
}
