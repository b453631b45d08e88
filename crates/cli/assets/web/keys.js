// The keyboard: what each key does, and the page that says so.

import { button, h } from './dom.js';

const HELP = [
  ['Everywhere', [['?', 'this page'], ['Esc', 'back'], ['t', 'light, dark, as the system']]],
  ['Lanes', [['j k', 'next, previous lane'], ['Enter', 'review it'], ['c', 'compare the two that are ticked'], ['o', 'what lanes both touch']]],
  ['Review', [['n p', 'next, previous file'], ['j k', 'next, previous hunk'], ['Space', 'tick the file, hunk or line'], ['x', 'tick the file'], ['a', 'tick all but what runs by itself'], ['/', 'filter paths'], ['1 2 3 4', 'changes, history, output, about'], ['K V E D L', 'keep, check, export, discard, leave']]],
  ['Output', [['f', 'follow the end'], ['s', 'lines, or the screen of a terminal']]],
  ['History', [['u r', 'undo, redo'], ['Enter', 'restore the snapshot']]],
];

/** Listens for all of the page; `view()` gives the present one. */
export function listen(view, everywhere) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (document.querySelector('dialog[open]')) return;
    const typing = event.target.matches?.('input:not([type=checkbox]):not([type=radio]), textarea, select');
    if (typing && event.key !== 'Escape') return;
    if (typing) {
      event.target.blur();
      return;
    }
    const act = view()?.keys?.[event.key] ?? everywhere[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** Shows what the keys do. */
export function help() {
  const dialog = h('dialog', { class: 'help', 'aria-label': 'Keys' }, h('h2', {}, 'Keys'), HELP.map(([where, keys]) => h('section', {}, h('h3', {}, where), h('dl', {}, keys.map(([key, words]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, words)])))), h('div', { class: 'buttons' }, button('Close', {}, () => dialog.close())));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
