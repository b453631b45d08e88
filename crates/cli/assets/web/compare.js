// Two lanes side by side: what either changed, and the same file in both.

import { ask } from './ask.js';
import { count, h, plain, problem, shown } from './dom.js';
import { facts, hunksPane } from './hunks.js';
import { Windowed } from './window.js';

const MEETINGS = { left: ['‹', 'only the first lane changed it'], right: ['›', 'only the second lane changed it'], same: ['=', 'both changed it to the same'], different: ['≠', 'both changed it, and not to the same'] };

/** The view; `place` is the path to begin with, where one was named. */
export function compareView(page, left, right, place) {
  const body = h('div', { class: 'tab-body' }, h('p', { class: 'quiet' }, 'Looking…'));
  const title = h('h1', {}, 'Compare');
  const element = h('div', { class: 'review' }, h('div', { class: 'bar' }, h('a', { class: 'button', href: '#/', 'aria-label': 'Back to all lanes' }, '‹ Lanes'), title), body);
  const view = { element, title: 'Compare', leave() {}, keys: { Escape: () => (location.hash = '#/') } };
  draw([left, right, place], body, title, view).catch((error) => body.replaceChildren(problem(error)));
  return view;
}

async function draw([left, right, wanted], body, title, view) {
  const answer = await ask({ what: 'compare', left, right });
  const [one, other] = answer.lanes;
  title.replaceChildren(shown(one.name), ' against ', shown(other.name));
  if (answer.files.length === 0) {
    body.replaceChildren(h('p', { class: 'quiet empty' }, 'Neither lane changed anything.'));
    return;
  }
  let files = answer.files;
  let mode = 'across';
  let now;
  const panes = { across: hunksPane('From the first lane to the second'), left: hunksPane('What the first lane changed'), right: hunksPane('What the second lane changed') };
  const place = h('div', { class: 'compare-panes' });
  const list = new Windowed({ rowHeight: 30, label: 'Files that either lane changed', className: 'files', row, onactive: (index) => open(files[index]) });

  function row(index) {
    const file = files[index];
    const [sign, words] = MEETINGS[file.meeting];
    return h('div', { class: `file ${file.meeting}`, 'data-name': plain(file.name), title: words, onclick: () => open(file) }, h('span', { class: `sign meeting-${file.meeting}` }, sign), h('span', { class: 'file-name' }, shown(file.name)), h('span', { class: 'quiet small' }, file.kinds.map((kind) => kind ?? '–').join(' / ')));
  }

  const all = h('input', { type: 'checkbox', onchange: () => {
    files = all.checked ? answer.files.filter((file) => file.kinds[0] && file.kinds[1]) : answer.files;
    list.set(files.length);
  } });
  const choice = h('div', { class: 'choice', role: 'radiogroup', 'aria-label': 'What to compare' }, [['across', 'One against the other'], ['both', 'Each against its base']].map(([name, words]) => {
    const box = h('input', { type: 'radio', name: 'compare', value: name, onchange: () => {
      mode = name;
      if (now) open(now);
    } });
    box.checked = name === mode;
    return h('label', {}, box, ` ${words}`);
  }));

  async function open(file) {
    now = file;
    if (!file) return;
    const at = { root: file.root, path: file.path };
    try {
      if (mode === 'across') {
        const content = await ask({ what: 'compare-file', left, right, file: at });
        if (now !== file) return;
        panes.across.show(file, content, null, [h('h2', {}, shown(file.name)), h('p', { class: 'quiet' }, shown(one.name), ' → ', shown(other.name), ' · ', MEETINGS[file.meeting][1])]);
        place.replaceChildren(panes.across.element);
        panes.across.list.draw();
        return;
      }
      const sides = [[left, panes.left, one, 0], [right, panes.right, other, 1]];
      place.replaceChildren(panes.left.element, panes.right.element);
      await Promise.all(sides.map(async ([lane, pane, view, side]) => {
        if (!file.kinds[side]) return pane.clear(h('h2', {}, shown(view.name)), h('p', { class: 'quiet' }, 'This lane did not change it.'));
        const content = await ask({ what: 'hunks', lane, file: at });
        return pane.show(content.file, content, null, [h('h2', {}, shown(view.name)), h('p', { class: 'quiet' }, facts(content.file).flatMap((fact, at) => (at ? [' · ', fact] : [fact])))]);
      }));
    } catch (error) {
      place.replaceChildren(problem(error));
    }
  }

  const both = answer.files.filter((file) => file.kinds[0] && file.kinds[1]).length;
  const differ = answer.files.filter((file) => file.meeting === 'different').length;
  body.replaceChildren(
    h('div', { class: 'bar' }, h('span', { class: 'quiet grow' }, `${count(answer.files.length, 'path')}; both changed ${both}, ${differ} of them differently.`), h('label', {}, all, ' Only what both changed'), choice),
    h('div', { class: 'panes' }, h('div', { class: 'files-side' }, list.element), place));
  list.set(files.length);
  const named = files.findIndex((file) => wanted && file.root === 0 && file.path === wanted);
  const first = named >= 0 ? named : files.findIndex((file) => file.meeting === 'different');
  list.activate(Math.max(0, first));
  const pane = () => panes[mode === 'across' ? 'across' : 'left'];
  Object.assign(view.keys, { n: () => list.activate(list.active + 1), p: () => list.activate(list.active - 1), j: () => pane().next(), k: () => pane().previous() });
}
