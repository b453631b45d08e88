// A list of any length, of which only what can be seen is in the document. Rows have one height. Arrow keys move the
// active row; what is done with it is its owner's.

// Browsers end elements at some tens of millions of pixels: above this the scroll bar is scaled.
const TALLEST = 8_000_000;
const SPARE = 12;
let numbers = 0;

export class Windowed {
  /** `row(index)` makes a row's element. `label` names the list to whom it is read. */
  constructor({ rowHeight, row, label, className = '', onactive = () => {}, onkey = () => false, onshown = () => {} }) {
    this.rowHeight = rowHeight;
    this.row = row;
    this.count = 0;
    this.active = -1;
    this.rows = new Map();
    this.id = `window-${(numbers += 1)}`;
    this.onactive = onactive;
    this.onkey = onkey;
    this.onshown = onshown;
    this.space = document.createElement('div');
    this.space.className = 'window-space';
    this.space.setAttribute('role', 'presentation');
    this.element = document.createElement('div');
    this.element.className = `window ${className}`.trim();
    this.element.tabIndex = 0;
    this.element.setAttribute('role', 'listbox');
    this.element.setAttribute('aria-multiselectable', 'true');
    this.element.setAttribute('aria-label', label);
    this.element.append(this.space);
    this.element.addEventListener('scroll', () => this.later(), { passive: true });
    this.element.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.later()).observe(this.element);
  }

  /** How many rows there are now; rows are made anew. */
  set(count, { columns = 0, keep = false } = {}) {
    this.count = count;
    const height = count * this.rowHeight;
    this.scale = Math.max(1, height / TALLEST);
    this.space.style.height = `${height / this.scale}px`;
    this.space.style.minWidth = columns ? `${columns}ch` : '';
    if (!keep) {
      this.element.scrollTop = 0;
      this.active = count > 0 ? 0 : -1;
    }
    this.active = Math.min(this.active, count - 1);
    this.refresh();
  }

  /** Makes the visible rows anew. */
  refresh() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.draw();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const top = this.element.scrollTop * this.scale;
    const height = this.element.clientHeight || 600;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - SPARE);
    const last = Math.min(this.count, Math.ceil((top + height) / this.rowHeight) + SPARE);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) {
      let row = this.rows.get(index);
      if (!row) {
        row = this.row(index);
        row.id = `${this.id}-${index}`;
        row.classList.add('window-row');
        row.setAttribute('role', 'option');
        row.setAttribute('aria-posinset', index + 1);
        row.setAttribute('aria-setsize', this.count);
        row.addEventListener('pointerdown', () => this.activate(index, { scroll: false }));
        this.rows.set(index, row);
        this.space.append(row);
      }
      // With a scaled scroll bar rows stand where they belong around what is seen now.
      const at = this.scale === 1 ? index * this.rowHeight : this.element.scrollTop + index * this.rowHeight - top;
      row.style.transform = `translateY(${at}px)`;
      row.classList.toggle('active', index === this.active);
    }
    const name = this.rows.has(this.active) ? `${this.id}-${this.active}` : '';
    if (name) this.element.setAttribute('aria-activedescendant', name);
    else this.element.removeAttribute('aria-activedescendant');
    this.onshown(first, last);
  }

  /** Makes a row the active one. */
  activate(index, { scroll = true } = {}) {
    if (index < 0 || index >= this.count) return;
    this.active = index;
    if (scroll) {
      const top = (index * this.rowHeight) / this.scale;
      const seen = this.element.clientHeight - this.rowHeight / this.scale;
      if (top < this.element.scrollTop) this.element.scrollTop = top;
      else if (top > this.element.scrollTop + seen) this.element.scrollTop = top - seen;
    }
    this.draw();
    this.onactive(index);
  }

  /** Scrolls so that a row stands near the top, and activates it. */
  goTo(index) {
    this.element.scrollTop = Math.max(0, ((index - 2) * this.rowHeight) / this.scale);
    this.activate(index);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in moves) {
      this.activate(Math.min(this.count - 1, Math.max(0, this.active + moves[event.key])));
    } else if (event.key === 'Home') {
      this.activate(0);
    } else if (event.key === 'End') {
      this.activate(this.count - 1);
    } else if (!this.onkey(event, this.active)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
