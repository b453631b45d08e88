// One lane under review: its changes with ticks, its history, its output, and what is known about it.

import { ask, Gone } from './ask.js';
import { age, button, count, h, plain, problem, shown } from './dom.js';
import { filesList } from './files.js';
import { facts, hunksPane } from './hunks.js';
import { historyTab } from './history.js';
import { keep } from './keep.js';
import { verdict } from './lanes.js';
import { outputTab } from './output.js';
import { Pick, pickOf, ticked } from './pick.js';
import { discard, exportLane, stop, verify } from './verbs.js';

const TABS = [['changes', 'Changes'], ['history', 'History'], ['output', 'Output'], ['about', 'About']];

/** The view of one tab. */
export function reviewView(page, lane, tab) {
  const body = h('div', { class: 'tab-body' }, h('p', { class: 'quiet' }, 'Looking…'));
  const title = h('h1', {}, 'Lane');
  const tabs = h('nav', { class: 'tabs', 'aria-label': 'Views of this lane' }, TABS.map(([name, words], at) => h('a', {
    href: name === 'changes' ? `#/lane/${lane}` : `#/lane/${lane}/${name}`, 'aria-current': name === tab ? 'page' : undefined, title: `${words} (${at + 1})`,
  }, words)));
  const element = h('div', { class: 'review' }, h('div', { class: 'bar' }, h('a', { class: 'button', href: '#/', 'aria-label': 'Back to all lanes' }, '‹ Lanes'), title, tabs), body);
  const view = { element, title: 'Lane', leave() {}, keys: {} };
  view.keys.Escape = () => (location.hash = '#/');
  TABS.forEach(([name], at) => (view.keys[String(at + 1)] = () => (location.hash = name === 'changes' ? `#/lane/${lane}` : `#/lane/${lane}/${name}`)));

  const name = (view) => title.replaceChildren('Lane ', shown(view.name), ' ', h('span', { class: `state ${view.state}` }, view.state));
  const failed = (error) => {
    if (error instanceof Gone) page.connected(false);
    body.replaceChildren(problem(error));
  };
  if (tab === 'changes') changesTab(page, lane, body, name, view).catch(failed);
  else if (tab === 'history') historyTab(lane, body, view).catch(failed);
  else if (tab === 'output') outputTab(page, lane, body, view).catch(failed);
  else aboutTab(lane, body).catch(failed);
  if (tab !== 'changes') ask({ what: 'lane', lane }).then((answer) => name(answer.lane), failed);
  return view;
}

async function changesTab(page, lane, body, name, view) {
  const changes = await ask({ what: 'changes', lane });
  page.connected(true);
  name(changes.lane);
  const pick = pickOf(changes.lane, changes.files);
  const pane = hunksPane('Hunks of the file');
  const summary = h('span', { class: 'grow', role: 'status' });
  const reload = () => page.show();
  const keepButton = button('Keep…', { class: 'primary', id: 'keep', title: 'Keep what is ticked (K)' }, () => keep(changes.lane, pick, reload));
  const verbs = h('div', { class: 'verbs' }, summary, keepButton,
    button('Check…', { id: 'verify', title: 'Check the lane with a command that is known (V)' }, () => verify(changes.lane, () => {})),
    button('Export…', { id: 'export', title: 'Write the result beside the project (E)' }, () => exportLane(changes.lane)),
    button('Discard…', { id: 'discard', class: 'danger', title: 'Drop the lane (D)' }, () => discard(changes.lane, () => (location.hash = '#/'))),
    button('Leave', { id: 'leave', title: 'Leave the lane as it is (L)' }, () => (location.hash = '#/')));

  const known = new Map();
  let asking;
  async function open(file, focus) {
    asking?.abort();
    asking = new AbortController();
    const key = Pick.key(file);
    try {
      if (!known.has(key)) {
        const late = setTimeout(() => pane.clear(h('p', { class: 'quiet' }, 'Looking…')), 150);
        const answer = await ask({ what: 'hunks', lane, file: { root: file.root, path: file.path } }, asking.signal).finally(() => clearTimeout(late));
        known.set(key, answer);
        pick.saw(file, answer.digest);
      }
      pane.show(file, known.get(key), pick, heading(file, changes));
      if (focus) pane.list.element.focus();
      body.classList.add('opened');
    } catch (error) {
      if (error.name !== 'AbortError') pane.clear(problem(error));
    }
  }

  const list = filesList(lane, changes, pick, open);
  const tell = () => {
    const { whole, parts } = pick.sums();
    const words = [whole ? count(whole, 'path') : '', parts ? `${count(parts, 'file')} in part` : ''].filter(Boolean);
    const others = ticked(lane).map((other) => plain(other.lane.name));
    if (words.length && others.length) words.push(`more in ${others.join(', ')}`);
    summary.textContent = words.length ? `Ticked: ${words.join(', ')}` : 'Tick what is to be kept.';
    keepButton.disabled = words.length === 0;
    pane.refresh();
  };
  pick.listeners.add(tell);
  const remarks = [];
  if (changes.git_internal) remarks.push(h('p', { class: 'quiet' }, `${count(changes.git_internal, 'path')} in .git, which stay in the lane.`));
  if (changes.gaps.length) {
    remarks.push(h('details', { class: 'warn-word' }, h('summary', {}, `${count(changes.gaps.length, 'path')} could not be compared`), h('ul', {}, changes.gaps.map((gap) => h('li', {}, shown(gap.path), ': ', shown(gap.why))))));
  }
  if (changes.files.length === 0) {
    body.replaceChildren(h('p', { class: 'quiet empty' }, 'This lane changed nothing.'), ...remarks, verbs);
    keepButton.disabled = true;
    summary.textContent = '';
  } else {
    body.replaceChildren(h('div', { class: 'remarks' }, remarks), h('div', { class: 'panes' }, list.element, pane.element), verbs);
    list.list.draw();
    tell();
  }
  Object.assign(view.keys, {
    n: list.next, p: list.previous, j: pane.next, k: pane.previous, '/': list.filter, a: list.toggleAll, x: list.toggleFile,
    K: () => keepButton.disabled || keepButton.click(), E: () => exportLane(changes.lane), V: () => verify(changes.lane, () => {}), D: () => verbs.querySelector('#discard').click(), L: () => (location.hash = '#/'),
  });
}

function heading(file, changes) {
  return [
    h('h2', {}, file.from ? [shown(file.from), ' → '] : null, shown(file.name)),
    h('p', { class: 'quiet facts-line' }, facts(file).flatMap((fact, at) => (at ? [' · ', fact] : [fact])), file.root > 0 ? [' · in ', shown(changes.roots[file.root])] : null),
    file.guarded ? h('p', { class: 'warn-word' }, 'Runs by itself: ', shown(file.guarded)) : null,
    file.drifted ? h('p', { class: 'warn-word' }, `It changed in the original since the lane began (${file.drifted}).`) : null,
  ].filter(Boolean);
}

async function aboutTab(lane, body) {
  const answer = await ask({ what: 'lane', lane });
  const view = answer.lane;
  const now = Date.now();
  const walls = view.run?.walls ?? [];
  const row = (name, value) => [h('dt', {}, name), h('dd', {}, value)];
  body.replaceChildren(...[h('dl', { class: 'facts wide' },
    row('id', view.id),
    row('strategy', [view.strategy, ' (', shown(view.why), ')']),
    row('made', view.cost),
    row('base', [new Date(answer.base.at).toISOString(), answer.base.head ? [', HEAD ', shown(answer.base.head)] : null, answer.base.other_boot ? h('p', { class: 'warn-word' }, 'The machine was restarted since; the newest writes may be incomplete.') : null]),
    row('roots', h('ul', {}, answer.roots.map((root) => h('li', {}, shown(root.path), ` (${root.strategy})`)))),
    row('changes', [answer.counts.words, answer.home_changes ? ` · ${answer.home_changes} in $HOME (private to the lane, never kept)` : '']),
    row('verdict', [answer.verdict ? [verdict(answer.verdict), ` · ${age(answer.verdict.at, now)} ago, in ${(answer.verdict.took / 1000).toFixed(1)} s `] : h('span', { class: 'quiet' }, ['none: ', h('code', {}, 'lane verify LANE -- CMD'), ' ']), button('Check…', { id: 'verify' }, () => verify(view, () => aboutTab(lane, body)))]),
    row('disk', `${answer.exclusive} of its own`)),
  h('h2', {}, 'Drift'),
  answer.drift.length ? h('ul', {}, answer.drift.map((at) => h('li', {}, shown(at.path), ` (${at.what})`))) : h('p', { class: 'quiet' }, 'Nothing that the lane changed has changed in the original.'),
  h('h2', {}, 'Walls'),
  walls.length ? h('table', {}, h('tbody', {}, walls.map((wall) => h('tr', {}, h('th', { scope: 'row' }, shown(wall.name)), h('td', { class: wall.full ? 'good-word' : 'warn-word' }, shown(wall.status)), h('td', {}, shown(wall.detail)))))) : h('p', { class: 'quiet' }, 'Nothing ran yet, so that none was built.'),
  h('h2', {}, 'Runs'),
  answer.runs.length ? h('ul', {}, answer.runs.map((run) => h('li', {}, h('code', {}, shown(run.command)), ` · ${run.end ?? 'running'} · ${age(run.started, now)} ago`))) : h('p', { class: 'quiet' }, 'none'),
  view.state === 'live' ? h('div', { class: 'buttons' }, button('Stop…', {}, () => stop(view, () => location.reload()))) : null].filter(Boolean));
}

