// What lanes both touch, before any of it is kept.

import { ask } from './ask.js';
import { count, h, plain, problem, shown } from './dom.js';
import { Windowed } from './window.js';

const WORDS = {
  same: ['=', 'both did the same to it'],
  apart: ['~', 'other lines of the same file'],
  lines: ['!', 'the same lines, or lines that touch'],
  whole: ['!', 'the file as a whole'],
  below: ['!', 'one works where the other one removed or moved something'],
};

/** The view. */
export function overlapView(page) {
  const body = h('div', { class: 'tab-body' }, h('p', { class: 'quiet' }, 'Looking…'));
  const bar = h('div', { class: 'bar' }, h('a', { class: 'button', href: '#/', 'aria-label': 'Back to all lanes' }, '‹ Lanes'), h('h1', {}, 'Overlap'));
  const view = { element: h('div', { class: 'review' }, bar, body), title: 'Overlap', leave() {}, keys: { Escape: () => (location.hash = '#/') } };
  draw(page, body, view).catch((error) => body.replaceChildren(problem(error)));
  return view;
}

async function draw(page, body, view) {
  const answer = await ask({ what: 'overlap', lanes: [] });
  page.connected(true);
  if (answer.met.length === 0) {
    body.replaceChildren(h('p', { class: 'quiet empty' }, answer.lanes.length < 2 ? 'There are no two lanes.' : 'No path is touched by two lanes.'));
    return;
  }
  let met = answer.met;
  const list = new Windowed({ rowHeight: 30, label: 'Paths that two lanes touch', className: 'files', row, onkey: (event, index) => event.key === 'Enter' && (go(met[index]), true) });
  const go = (one) => (location.hash = `#/compare/${one.lanes[0].id}/${one.lanes[1].id}/${one.root ? '' : one.path}`);

  function row(index) {
    const one = met[index];
    const [sign, words] = WORDS[one.what];
    return h('div', { class: `file ${one.what}`, 'data-name': plain(one.name), title: words, onclick: () => go(one) },
      h('span', { class: `sign ${one.clash ? 'meeting-different' : 'meeting-same'}` }, sign),
      h('span', { class: 'file-name' }, one.root ? [shown(one.root), '/'] : null, shown(one.name)),
      h('span', { class: 'tag' }, one.what),
      one.hunks.length ? h('span', { class: 'quiet small' }, `lines ${one.hunks.map((pair) => pair.map(place).join(' / ')).join(', ')}`) : null,
      h('span', { class: 'quiet small' }, shown(one.lanes[0].name), ' · ', shown(one.lanes[1].name)));
  }

  const clashes = answer.met.filter((one) => one.clash).length;
  const only = h('input', { type: 'checkbox', onchange: () => {
    met = only.checked ? answer.met.filter((one) => one.clash) : answer.met;
    list.set(met.length);
  } });
  only.disabled = clashes === 0;
  body.replaceChildren(
    h('div', { class: 'bar' }, h('span', { class: 'quiet grow', id: 'overlap-sum' }, `${count(answer.met.length, 'path')} touched by two lanes, ${clashes} of them not apart.`), h('label', {}, only, ' Only what cannot be kept from both as it is')),
    list.element);
  list.set(met.length);
  Object.assign(view.keys, { n: () => list.activate(list.active + 1), p: () => list.activate(list.active - 1) });
}

/** Lines of the original. */
function place({ start, lines }) {
  if (lines === 0) return `before ${start}`;
  return lines === 1 ? String(start) : `${start}–${start + lines - 1}`;
}
