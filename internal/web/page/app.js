'use strict';
// The page asks for a picture of both worlds every few seconds and draws it. An old picture is never left standing as if it were new.

const period = 3000, patience = 15000, shown = 500, many = 300;
const $ = id => document.getElementById(id);
let picture = null, tag = '', received = 0, filter = '', states = new Set();

async function ask() {
  try {
    const r = await fetch('/api/view', { headers: tag ? { 'If-None-Match': tag } : {}, cache: 'no-store', signal: AbortSignal.timeout(patience) });
    if (r.status === 401 || r.status === 403) { location.reload(); return; }
    if (r.status === 200) { picture = await r.json(); tag = r.headers.get('ETag') || ''; draw(); }
    if (r.ok || r.status === 304) received = Date.now();
  } catch { /* told by stale() */ }
  stale();
  setTimeout(ask, document.hidden ? 5 * period : period);
}

// stale says how old the picture is, and greys it where it may not be true any more.
function stale() {
  const age = Date.now() - received, old = received === 0 || age > patience;
  document.body.classList.toggle('stale', old && received > 0);
  $('fresh').className = old ? 'bad' : '';
  $('fresh').textContent = received === 0 ? 'no answer from slinky web yet' : old ? 'slinky web doesn\'t answer: this is ' + span(age) + ' old' : 'live';
}

function world(id, name, w, text) {
  const p = $(id);
  p.replaceChildren(el('b', {}, name), ' ');
  const bad = !w.known && !w.absent;
  p.className = 'world' + (bad ? ' bad' : '');
  p.append(w.absent ? 'none here' : bad ? 'no answer' : text);
  return bad ? name + ' can\'t be asked, so what it knows is not shown: ' + (w.error || 'no answer yet') + (w.read ? '; it last answered ' + span(Date.parse(picture.taken) - Date.parse(w.read)) + ' ago' : '') : '';
}

const lacks = (w, what) => (w.missing || []).some(m => m.what === what);

// old says which parts of a world are too old to be shown, and since when.
function old(name, w) {
  return !w.known ? [] : (w.missing || []).filter(m => !m.forbidden).map(m => 'The ' + m.what + ' of ' + name + ' can\'t be read, so they are not shown: ' + m.error + (m.read ? '; they were last read ' + span(Date.parse(picture.taken) - Date.parse(m.read)) + ' ago' : ''));
}

function draw() {
  const p = picture, k = p.kubernetes, s = p.slurm, n = s.nodes || {};
  const alarms = [
    world('kubernetes', 'Kubernetes', k, (k.version || 'of unknown version') + ', ' + (lacks(k, 'nodes') ? 'nodes not known' : k.ready + ' of ' + k.nodes + ' nodes ready') + (k.cordoned ? ', ' + k.cordoned + ' cordoned' : '')),
    world('slurm', 'Slurm', s, (s.version || '') + ' ' + (s.cluster || '') + ', ' + (n.up || 0) + ' nodes up' + (n.drained ? ', ' + n.drained + ' drained' : '') + (n.down ? ', ' + n.down + ' down' : '')),
    ...old('Kubernetes', k), ...old('Slurm', s),
  ].filter(Boolean);
  $('hidden').hidden = !(k.hidden || []).length;
  $('hidden').textContent = (k.hidden || []).join(' — ');
  $('alarm').hidden = !alarms.length;
  $('alarm').textContent = alarms.join(' — ');
  $('use').hidden = !p.use;
  $('use').replaceChildren(...(p.use ? [meter('CPUs', p.use, 'cpus', String), meter('Memory', p.use, 'memoryMiB', mib), meter('GPUs', p.use, 'gpus', String)].filter(Boolean) : []));
  const problems = p.problems || [];
  $('problems-section').hidden = !problems.length;
  $('problems').replaceChildren(...problems.slice(0, 20).map(x => el('li', { class: x.hurts ? 'hurts' : '' }, el('b', {}, x.where), ': ' + x.what + ' ', el('code', {}, x.do || ''))));
  if (problems.length > 20) $('problems').append(el('li', {}, 'and ' + (problems.length - 20) + ' more'));
  drawStates(); drawQueue(); drawNodes();
}

function drawStates() {
  const buttons = Object.entries(picture.queue).map(([state, count]) => {
    const b = el('button', { class: 's-' + state, 'aria-pressed': String(states.has(state)) }, state + ' ' + count);
    b.addEventListener('click', () => { if (!states.delete(state)) states.add(state); drawStates(); drawQueue(); });
    return b;
  });
  const at = [...$('states').children].indexOf(document.activeElement);
  $('states').replaceChildren(...buttons);
  if (at >= 0 && buttons[at]) buttons[at].focus();
}

function matches(i) {
  if (states.size && !states.has(i.state)) return false;
  return !filter || [i.name, i.job, i.user, i.account, i.partition, i.nodes, i.reason, ...(i.pods || [])].join(' ').toLowerCase().includes(filter);
}

function drawQueue() {
  const now = Date.parse(picture.taken), focused = document.activeElement && document.activeElement.dataset.target;
  const items = (picture.items || []).filter(matches);
  $('queue').replaceChildren(...items.slice(0, shown).map(i => {
    const cell = (text, cls) => el('td', { class: cls || '' }, text === 0 || text === undefined ? '' : text);
    const row = el('tr', { tabindex: '0' }, cell(i.state, 's-' + i.state), cell(nameOf(i), 'name'), cell(i.job, 'n'), cell(i.pods ? (i.podsUnknown ? '?' : i.podsRunning || 0) + '/' + i.pods.length : '', 'n'), cell(i.user), cell(i.partition, 'part'),
      cell(i.cpus, 'n'), cell(i.gpus, 'n'), cell(i.nodes || (i.nodeCount ? '(' + i.nodeCount + ')' : ''), 'list'), cell(timeOf(i, now), 'time'), cell(i.reason, 'reason'));
    row.dataset.target = targetOf(i);
    return row;
  }));
  for (const row of $('queue').children) if (focused && row.dataset.target === focused) { row.focus({ preventScroll: true }); break; }
  const all = (picture.items || []).length + picture.more, hiddenLines = Math.max(0, items.length - shown) + picture.more;
  $('queue-count').textContent = all === 0 ? '' : all + (all === 1 ? ' line' : ' lines');
  $('queue-more').textContent = all === 0 ? (picture.slurm.known || picture.slurm.absent ? 'Nothing runs and nothing waits.' : 'What runs and waits is not known.') : hiddenLines ? 'and ' + hiddenLines + ' more: find narrows the list' : items.length ? '' : 'No line has that.';
}

function rackOf(n) {
  const m = /topo-switch:([^,]+)/.exec(n.topology || '') || /topo-block:([^,]+)/.exec(n.topology || '');
  return m ? m[1] : (n.partitions || [])[0] || (n.role !== 'kubernetes' ? 'elsewhere' : picture.slurm.known ? 'Kubernetes alone' : 'Kubernetes');
}

function drawNodes() {
  const nodes = picture.nodes || [], small = nodes.length > many, racks = new Map(), focused = document.activeElement && document.activeElement.dataset.node;
  for (const n of nodes) { const r = rackOf(n); if (!racks.has(r)) racks.set(r, []); racks.get(r).push(n); }
  const names = [...racks.keys()].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  $('nodes').className = small ? 'small' : '';
  $('nodes').replaceChildren(...names.map(r => el('div', { class: 'rack' }, el('h3', {}, r + ' · ' + racks.get(r).length), el('div', { class: 'tiles' }, ...racks.get(r).map(n => drawNode(n, small))))));
  $('nodes-count').textContent = nodes.length || '';
  if (focused) for (const b of document.querySelectorAll('.node')) if (b.dataset.node === focused) { b.focus({ preventScroll: true }); break; }
}

async function why(target, node) {
  $('why-title').textContent = target;
  $('why-text').textContent = 'asking …';
  $('why-cores').replaceChildren();
  if (node) {
    const rows = (node.occupants || []).map(o => el('div', { class: 'row' }, el('b', {}, o.cores ? 'cores ' + o.cores : 'somewhere on it'), (o.pod ? 'pod ' : '') + o.name + (o.job ? ', job ' + o.job : '') + (o.user ? ' of ' + o.user : '') + (o.gres ? ', ' + o.gres : '')));
    $('why-cores').replaceChildren(drawCores(node), ...rows);
  }
  if (!$('why').open) $('why').showModal();
  try {
    const r = await fetch('/api/why?target=' + encodeURIComponent(node ? 'node/' + target : target), { signal: AbortSignal.timeout(patience) });
    $('why-text').textContent = (await r.json()).text;
  } catch (e) { $('why-text').textContent = 'no answer from slinky web'; }
}

function open(e) {
  const row = e.target.closest('[data-target]'), tile = e.target.closest('[data-node]');
  if (row) why(row.dataset.target);
  if (tile) why(tile.dataset.node, picture.nodes.find(n => n.name === tile.dataset.node));
}

document.addEventListener('click', open);
document.addEventListener('keydown', e => {
  if ($('why').open) return;
  if (e.target.id === 'find') { if (e.key === 'Escape') { e.target.value = ''; filter = ''; drawQueue(); e.target.blur(); } return; }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const rows = [...document.querySelectorAll('#queue tr')], tiles = [...document.querySelectorAll('.node')];
  const list = document.activeElement.classList.contains('node') ? tiles : rows, at = list.indexOf(document.activeElement);
  const go = i => { const x = list[Math.max(0, Math.min(list.length - 1, i))]; if (x) x.focus(); };
  switch (e.key) {
    case 'j': case 'ArrowDown': if (e.key === 'j' || at >= 0) { go(at + 1); e.preventDefault(); } break;
    case 'k': case 'ArrowUp': if (e.key === 'k' || at >= 0) { go(at - 1); e.preventDefault(); } break;
    case 'ArrowRight': if (list === tiles) go(at + 1); break;
    case 'ArrowLeft': if (list === tiles) go(at - 1); break;
    case 'q': if (rows[0]) rows[0].focus(); break;
    case 'n': if (tiles[0]) tiles[0].focus(); break;
    case '/': $('find').focus(); e.preventDefault(); break;
    case 'Enter': if (e.target.dataset.target) { open(e); e.preventDefault(); } break;
  }
});
$('find').addEventListener('input', e => { filter = e.target.value.toLowerCase(); if (picture) drawQueue(); });
setInterval(stale, 1000);
ask();
