// All lanes side by side: what each is doing, what it cost, what stands around it, what it changed.

import { ask, Gone } from './ask.js';
import { age, button, count, h, plain, problem, shown, toast } from './dom.js';
import { small } from './graph.js';
import { discard, stop, undoKeep, verify } from './verbs.js';

const LIVELY = 1500;
const QUIET = 5000;
const GRAPH = 18;

/** The view; `leave()` of it ends its polling. */
export function lanesView(page) {
  const graphs = new Map();
  const cards = new Map();
  const picked = new Set();
  const grid = h('ul', { class: 'cards', 'aria-label': 'Lanes' });
  const trash = h('section', { class: 'trash', hidden: true });
  const keeps = h('details', { class: 'keeps', hidden: true });
  const note = h('div', {});
  const compare = button('Compare', { class: 'primary', disabled: true }, () => {
    const [left, right] = picked;
    location.hash = `#/compare/${left}/${right}`;
  });
  const overlap = h('a', { class: 'button', href: '#/overlap', id: 'overlap', title: 'What lanes both touch (o)' }, 'Overlap');
  const bar = h('div', { class: 'bar' }, h('h1', {}, 'Lanes'), h('span', { class: 'quiet grow', id: 'compare-note' }), overlap, compare);
  const element = h('div', {}, bar, note, grid, keeps, trash);
  let left = false;
  let timer;
  let last;

  const tellPicked = () => {
    compare.disabled = picked.size !== 2;
    bar.querySelector('#compare-note').textContent = picked.size === 1 ? 'Tick one more lane to compare.' : '';
  };

  async function load() {
    clearTimeout(timer);
    const began = performance.now();
    let live = false;
    try {
      const answer = await ask({ what: 'lanes' });
      if (left) return;
      page.connected(true);
      page.project(answer.project);
      for (const { what, on } of answer.repaired) toast(h('span', {}, 'Repaired: ', shown(what), ' (', shown(on), ')'));
      live = answer.lanes.some((lane) => lane.state === 'live');
      draw(answer);
    } catch (error) {
      if (left) return;
      if (error instanceof Gone) page.connected(false);
      else note.replaceChildren(problem(error));
    }
    // A project that takes long to look at is not looked at without a pause.
    const took = performance.now() - began;
    timer = setTimeout(() => (document.hidden ? (timer = setTimeout(load, QUIET)) : load()), Math.max(live ? LIVELY : QUIET, took * 5));
  }

  function draw(answer) {
    note.replaceChildren();
    if (answer.lanes.length === 0) {
      note.replaceChildren(h('p', { class: 'quiet empty' }, 'No lane yet. ', h('code', {}, 'lane run -- CMD'), ' makes one.'));
    }
    const there = new Set(answer.lanes.map((lane) => lane.id));
    for (const [id, card] of cards) {
      if (!there.has(id)) {
        card.element.remove();
        cards.delete(id);
        picked.delete(id);
      }
    }
    answer.lanes.forEach((lane, index) => {
      let card = cards.get(lane.id);
      if (!card) {
        card = { element: h('li', { class: 'card', 'data-lane': plain(lane.name) }) };
        cards.set(lane.id, card);
      }
      const text = JSON.stringify([lane, age(lane.created, answer.now), elapsed(lane, answer.now)]);
      if (card.text !== text) {
        card.text = text;
        const focused = card.element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
        card.element.replaceChildren(...face(lane, answer.now).filter(Boolean));
        if (focused) card.element.querySelector(`[data-focus="${focused}"]`)?.focus();
      }
      if (grid.children[index] !== card.element) grid.insertBefore(card.element, grid.children[index] ?? null);
      graphOf(lane, card.element);
    });
    tellPicked();
    const text = JSON.stringify(answer.trash);
    if (text !== last) {
      last = text;
      drawTrash(answer);
    }
  }

  function face(lane, now) {
    const tick = h('input', { type: 'checkbox', 'data-focus': 'tick', 'aria-label': `Compare lane ${plain(lane.name)}`, onchange: () => {
      if (tick.checked) picked.add(lane.id);
      else picked.delete(lane.id);
      tellPicked();
    } });
    tick.checked = picked.has(lane.id);
    const walls = lane.run?.walls ?? [];
    const full = walls.filter((wall) => wall.full).length;
    return [
      h('div', { class: 'card-head' },
        h('label', { class: 'tick', title: 'Tick two lanes to compare them' }, tick),
        h('h2', {}, h('a', { href: `#/lane/${lane.id}`, 'data-focus': 'open' }, shown(lane.name))),
        h('span', { class: `state ${lane.state}` }, lane.state)),
      h('p', { class: 'changes' }, changes(lane)),
      lane.run ? h('p', { class: 'command' }, h('code', {}, shown(lane.run.command)), ' ', h('span', { class: lane.run.good === false ? 'bad-word' : 'quiet' }, lane.run.end ?? elapsed(lane, now))) : h('p', { class: 'quiet' }, 'nothing ran yet'),
      lane.says ? h('p', { class: 'says', title: 'The last line that it printed' }, shown(lane.says)) : null,
      h('div', { class: 'graph-place', 'data-graph': lane.id }),
      h('dl', { class: 'facts' },
        fact('made', h('span', { title: plain(lane.why) }, `${lane.strategy} · ${lane.cost}`)),
        fact('walls', walls.length ? h('details', {}, h('summary', { 'data-focus': 'walls' }, full === walls.length ? `all ${full} full` : `${full} of ${walls.length} full`), h('ul', {}, walls.map((wall) => h('li', {}, shown(wall.name), ': ', h('span', { class: wall.full ? 'good-word' : 'warn-word' }, shown(wall.status)), ' ', shown(wall.detail, 'quiet'))))) : h('span', { class: 'quiet' }, 'none yet')),
        fact('size', [lane.exclusive ?? '?', lane.memory ? ` · ${lane.memory} in memory` : '']),
        fact('age', [age(lane.created, now), lane.forked_from ? [' · forked from ', shown(lane.forked_from)] : '']),
        lane.verdict ? fact('verdict', verdict(lane.verdict)) : null),
      lane.other_boot ? h('p', { class: 'warn-word' }, 'The machine was restarted since; the newest writes may be incomplete.') : null,
      lane.problem ? h('p', { class: 'bad-word' }, shown(lane.problem)) : null,
      h('div', { class: 'buttons' },
        h('a', { class: 'button primary', href: `#/lane/${lane.id}`, 'data-focus': 'review' }, 'Review'),
        lane.run?.recorded ? h('a', { class: 'button', href: `#/lane/${lane.id}/output`, 'data-focus': 'output' }, 'Output') : null,
        button('Check…', { 'data-focus': 'verify' }, () => verify(lane, load)),
        lane.state === 'live' ? button('Stop…', { 'data-focus': 'stop' }, () => stop(lane, load)) : null,
        button('Discard…', { 'data-focus': 'discard', class: 'danger' }, () => discard(lane, load))),
    ];
  }

  function graphOf(lane, card) {
    const place = card.querySelector('.graph-place');
    const known = graphs.get(lane.id);
    const mark = `${lane.snapshots} ${lane.state} ${lane.run?.id} ${lane.counts?.words}`;
    if (known?.drawn) {
      if (!place.firstChild) place.append(...known.drawn());
      if (known.mark === mark) return;
    } else if (known) return;
    if (!lane.snapshots) return;
    graphs.set(lane.id, { ...known, mark });
    ask({ what: 'history', lane: lane.id }).then(({ snapshots }) => {
      const drawn = () => [small(snapshots, GRAPH), snapshots.length > GRAPH ? h('a', { class: 'quiet', href: `#/lane/${lane.id}/history` }, `${count(snapshots.length - GRAPH, 'older one')}`) : ''];
      graphs.set(lane.id, { mark, drawn });
      cards.get(lane.id)?.element.querySelector('.graph-place')?.replaceChildren(...drawn());
    }, () => graphs.delete(lane.id));
  }

  function drawTrash(answer) {
    trash.hidden = answer.trash.length === 0;
    trash.replaceChildren(h('h2', {}, 'In the trash'), h('ul', {}, answer.trash.map((lane) => h('li', {},
      shown(lane.name), h('span', { class: 'quiet' }, ` discarded ${age(lane.discarded, answer.now)} ago `),
      button('Recover', { 'aria-label': `Recover lane ${plain(lane.name)}` }, async () => {
        try {
          await ask({ what: 'recover', lane: lane.id });
          toast(h('span', {}, 'Lane ', shown(lane.name), ' is back.'));
        } catch (error) {
          toast(problem(error), { bad: true });
        }
        load();
      })))));
  }

  async function drawKeeps() {
    const answer = await ask({ what: 'kept' }).catch(() => ({ keeps: [] }));
    keeps.hidden = answer.keeps.length === 0;
    keeps.replaceChildren(h('summary', {}, `${count(answer.keeps.length, 'keep')} that can be looked back at`), h('ul', {}, answer.keeps.map((keep) => h('li', {},
      h('code', {}, keep.id), ` ${count(keep.steps, 'path')} from ${keep.lanes.length > 1 ? 'lanes' : 'lane'} `, keep.lanes.length ? keep.lanes.flatMap((name, at) => (at ? [', ', shown(name)] : [shown(name)])) : shown(keep.lane), h('span', { class: 'quiet' }, keep.at ? ` ${age(keep.at, Date.now())} ago, ${keep.bytes} held for it` : ''),
      keep.problem ? h('span', { class: 'warn-word' }, shown(keep.problem)) : keep.undone ? h('span', { class: 'quiet' }, 'undone') : button('Undo…', { 'aria-label': `Undo keep ${keep.id}` }, () => undoKeep(keep.id, () => {
        drawKeeps();
        load();
      }))))));
  }

  load();
  drawKeeps();
  return {
    element,
    title: 'Lanes',
    leave() {
      left = true;
      clearTimeout(timer);
    },
    keys: {
      j: () => step(grid, 1),
      k: () => step(grid, -1),
      c: () => compare.disabled || compare.click(),
      o: () => overlap.click(),
    },
  };
}

function step(grid, by) {
  const links = [...grid.querySelectorAll('[data-focus="open"]')];
  const at = links.findIndex((link) => link.closest('.card').contains(document.activeElement));
  links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

function fact(name, value) {
  return [h('dt', {}, name), h('dd', {}, value)];
}

function elapsed(lane, now) {
  return lane.run && !lane.run.end ? `running for ${age(lane.run.started, now)}` : '';
}

/** A verdict as a word with what it stands on. */
export function verdict(verdict) {
  const role = { pass: 'good-word', fail: 'bad-word', timeout: 'bad-word' }[verdict.word] ?? 'warn-word';
  const was = verdict.word === verdict.was ? '' : ` (was ${verdict.was}; the lane changed since)`;
  return [h('span', { class: role }, verdict.word), `${was} `, verdict.command ? h('code', {}, shown(verdict.command)) : null];
}

function changes(lane) {
  const counts = lane.counts;
  if (!counts) return h('span', { class: 'bad-word' }, 'changes not known');
  if (counts.total === 0) return h('span', { class: 'quiet' }, counts.words);
  const part = (number, kind) => (number ? h('span', { class: `share ${kind}`, 'data-share': number }) : null);
  const bar = h('span', { class: 'shares', 'aria-hidden': 'true' }, part(counts.added, 'add'), part(counts.modified, 'modify'), part(counts.deleted, 'delete'));
  for (const share of bar.children) share.style.flexGrow = share.dataset.share;
  return [bar, h('span', {}, counts.words)];
}
