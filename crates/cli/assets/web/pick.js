// What is ticked, as data: whole changes, parts of files by hunk and by line. Exact paths; nothing covers what stands
// below it.

/** What is ticked in each lane that was looked at, by its id: it stays while one goes from lane to lane. */
const picks = new Map();

/** The ticks of a lane, as far as what they are on is still there. */
export function pickOf(lane, files) {
  if (!picks.has(lane.id)) picks.set(lane.id, { lane, pick: new Pick() });
  const known = picks.get(lane.id);
  known.lane = lane;
  known.pick.listeners.clear();
  const there = new Set(files.map(Pick.key));
  for (const key of known.pick.files.keys()) if (!there.has(key)) known.pick.files.delete(key);
  return known.pick;
}

/** Other lanes in which something is ticked. */
export function ticked(but) {
  return [...picks.values()].filter(({ lane, pick }) => lane.id !== but && pick.files.size > 0);
}

export class Pick {
  constructor() {
    this.files = new Map();
    this.seen = new Map();
    this.listeners = new Set();
  }

  /** One name for a file of the list. */
  static key(file) {
    return `${file.root}:${file.path}`;
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  /** `none`, `part` or `whole`. */
  state(file) {
    const taken = this.files.get(Pick.key(file));
    if (!taken) return 'none';
    return taken === 'whole' ? 'whole' : 'part';
  }

  setWhole(file, on) {
    if (on) this.files.set(Pick.key(file), 'whole');
    else this.files.delete(Pick.key(file));
  }

  /** What is taken of a hunk: `none`, `all`, or the set of its lines. */
  hunk(file, id) {
    const taken = this.files.get(Pick.key(file));
    if (!taken) return 'none';
    if (taken === 'whole') return 'all';
    return taken.hunks.get(id) ?? 'none';
  }

  /** Whether the new name, or the new mode, is taken. */
  flag(file, name) {
    const taken = this.files.get(Pick.key(file));
    return taken === 'whole' || Boolean(taken?.[name]);
  }

  setFlag(file, content, name, on) {
    const part = this.part(file, content);
    part[name] = on;
    this.settle(file, content, part);
  }

  setHunk(file, content, hunk, on) {
    const part = this.part(file, content);
    if (on) part.hunks.set(hunk.id, 'all');
    else part.hunks.delete(hunk.id);
    this.settle(file, content, part);
  }

  /** Ticks one changed line of a hunk; `all` is how many it has. */
  setLine(file, content, hunk, number, all, on) {
    const part = this.part(file, content);
    const before = part.hunks.get(hunk.id);
    const lines = before === 'all' ? new Set(Array.from({ length: all }, (_, at) => at + 1)) : new Set(before ?? []);
    if (on) lines.add(number);
    else lines.delete(number);
    if (lines.size === 0) part.hunks.delete(hunk.id);
    else part.hunks.set(hunk.id, lines.size === all ? 'all' : lines);
    this.settle(file, content, part);
  }

  part(file, content) {
    const taken = this.files.get(Pick.key(file));
    if (taken && taken !== 'whole') return { ...taken, hunks: new Map(taken.hunks) };
    const on = taken === 'whole';
    return { rename: on, mode: on, hunks: new Map(on ? content.hunks.map((hunk) => [hunk.id, 'all']) : []) };
  }

  /** A part that is everything is the whole; one that is nothing is gone. */
  settle(file, content, part) {
    const { rename, mode } = flags(file);
    const hunks = content.hunks.every((hunk) => part.hunks.get(hunk.id) === 'all');
    if (hunks && (!rename || part.rename) && (!mode || part.mode)) this.files.set(Pick.key(file), 'whole');
    else if (part.hunks.size === 0 && !(rename && part.rename) && !(mode && part.mode)) this.files.delete(Pick.key(file));
    else this.files.set(Pick.key(file), part);
    this.changed();
  }

  /** Files and hunks that are ticked, for the summary. */
  sums() {
    let whole = 0;
    let parts = 0;
    for (const taken of this.files.values()) taken === 'whole' ? (whole += 1) : (parts += 1);
    return { whole, parts };
  }

  /** A file was looked at, as this. */
  saw(file, digest) {
    const key = Pick.key(file);
    const before = this.seen.get(key);
    this.seen.set(key, digest);
    // Its hunks are not those that were ticked.
    if (before && before !== digest && this.files.has(key) && this.files.get(key) !== 'whole') {
      this.files.delete(key);
      this.changed();
    }
  }

  /** As the server takes it, each file with what it was when it was looked at. */
  data() {
    return [...this.files].map(([key, taken]) => {
      const [root, path] = [Number(key.slice(0, key.indexOf(':'))), key.slice(key.indexOf(':') + 1)];
      const digest = this.seen.get(key) ?? null;
      if (taken === 'whole') return { root, path, digest, whole: true };
      const hunks = [...taken.hunks].map(([id, lines]) => ({ id, lines: lines === 'all' ? null : [...lines].sort((a, b) => a - b) }));
      return { root, path, digest, whole: false, rename: taken.rename, mode: taken.mode, hunks };
    });
  }

  clear() {
    this.files.clear();
    this.changed();
  }
}

/** What of a change besides its lines can be ticked by itself. */
export function flags(file) {
  const both = file.old && file.new && file.old.type === file.new.type;
  return {
    rename: file.kind === 'rename',
    mode: Boolean(both && file.old.type !== 'symlink' && file.old.mode !== file.new.mode && file.kind !== 'mode'),
  };
}
