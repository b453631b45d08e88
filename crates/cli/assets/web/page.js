// The page: lets itself in, and shows the view that the address names.

import { open, whenLocked } from './ask.js';
import { compareView } from './compare.js';
import { button, h, plain, shown } from './dom.js';
import { help, listen } from './keys.js';
import { lanesView } from './lanes.js';
import { overlapView } from './overlap.js';
import { reviewView } from './review.js';

const THEMES = ['system', 'light', 'dark'];
const main = document.getElementById('main');
const project = h('span', { class: 'project' });
const offline = h('span', { class: 'offline', role: 'alert', hidden: true }, 'The server does not answer.');
const theme = button('', { class: 'link', title: 'Light or dark (t)' }, turn);
let current;

const page = {
  /** Shows the view that the address names, anew. */
  show() {
    current?.leave();
    const [, what, one, two, place] = location.hash.split('/');
    if (what === 'lane' && one) current = reviewView(page, one, ['history', 'output', 'about'].includes(two) ? two : 'changes');
    else if (what === 'compare' && one && two) current = compareView(page, one, two, place);
    else if (what === 'overlap') current = overlapView(page);
    else current = lanesView(page);
    document.title = `${current.title} · lane`;
    main.replaceChildren(current.element);
  },
  connected(yes) {
    offline.hidden = yes;
  },
  project(path) {
    if (project.dataset.path === plain(path)) return;
    project.dataset.path = plain(path);
    project.replaceChildren(shown(path));
  },
};

function turn() {
  const now = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? 'system') + 1) % THEMES.length];
  localStorage.setItem('lane-theme', now);
  dress(now);
}

function dress(name) {
  const known = THEMES.includes(name) ? name : 'system';
  document.documentElement.dataset.theme = known;
  theme.textContent = known;
}

function locked() {
  current?.leave();
  current = undefined;
  main.replaceChildren(h('div', { class: 'empty' }, h('h1', {}, 'Not let in'), h('p', {}, 'Open the address that ', h('code', {}, 'lane web'), ' printed. It works once; start ', h('code', {}, 'lane web'), ' again for another.')));
}

dress(localStorage.getItem('lane-theme'));
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById('top').append(h('a', { class: 'brand', href: '#/' }, 'lane'), project, offline, h('span', { class: 'grow' }), theme, button('?', { class: 'link', 'aria-label': 'Keys', title: 'Keys (?)' }, help));
listen(() => current, { '?': help, t: turn });
whenLocked(locked);
if (await open()) {
  page.show();
  addEventListener('hashchange', page.show);
} else {
  locked();
}
