// Rates and latencies from counters that only grow: each figure is a difference of two samples.

const KEPT = 301;

/** Samples of the counters of a server, one a second, five minutes of them. */
export class History {
  constructor() {
    this.samples = [];
    this.start = null;
  }

  /** Adds an answer of the server. A server that was started anew begins anew; an answer that comes late is dropped. */
  add(status) {
    if (status.start !== this.start) this.samples = [];
    this.start = status.start;
    const last = this.samples.at(-1);
    if (last && status.monotonic <= last.monotonic) return;
    const counters = new Map();
    for (const entry of status.counters) {
      const key = `${entry.name}\n${entry.version}`;
      const before = last?.counters.get(key);
      counters.set(key, before && isSame(before, entry) ? before : entry); // idle models take memory once
    }
    this.samples.push({ at: Date.now(), monotonic: status.monotonic, counters, bounds: status.bounds_ns });
    if (this.samples.length > KEPT) this.samples.shift();
  }

  /** Returns a figure a sample, of all models or of one ("name\nversion"); the first sample has none. */
  points(key) {
    const points = [];
    for (let index = 1; index < this.samples.length; index += 1) points.push(this.point(index, key));
    return points;
  }

  /** Returns the newest figures; null before there are two samples. */
  latest(key) {
    return this.samples.length > 1 ? this.point(this.samples.length - 1, key) : null;
  }

  /** Counts batches by their rows in the last minute: pairs of rows and batches, the fewest rows first. */
  batchSizes(key) {
    if (this.samples.length < 2) return [];
    const index = this.samples.length - 1;
    const counts = new Map();
    for (const [now, before] of pairs(this.samples[index], this.earlier(index, 60), key)) {
      addPairs(counts, now.batches, before?.batches);
    }
    return [...counts].filter(([, count]) => count > 0).sort(([one], [other]) => one - other);
  }

  /** Finds the sample so many seconds before another one, or the last before it. */
  earlier(index, seconds) {
    const since = this.samples[index].monotonic - seconds - 0.5;
    const first = this.samples.findIndex((sample) => sample.monotonic >= since);
    return this.samples[Math.min(first, index - 1)];
  }

  point(index, key) {
    const last = this.samples[index];
    const before = this.samples[index - 1];
    const seconds = last.monotonic - before.monotonic;
    const sums = { answered: 0, failed: 0, rows: 0, runs: 0, waiting: 0 };
    for (const [now, then] of pairs(last, before, key)) {
      for (const name of ["answered", "rows", "runs"]) sums[name] += now[name] - (then?.[name] ?? 0);
      sums.failed += total(now.failed) - (then ? total(then.failed) : 0);
      sums.waiting += now.waiting;
    }
    // Latencies of five seconds together: those of one are too few for the slowest hundredth.
    const buckets = new Map();
    for (const [now, then] of pairs(last, this.earlier(index, 5), key)) {
      addPairs(buckets, now.latencies, then?.latencies);
    }
    return {
      at: last.at,
      requests: sums.answered / seconds,
      failures: sums.failed / seconds,
      rows: sums.rows / seconds,
      batch: sums.runs > 0 ? sums.rows / sums.runs : NaN,
      waiting: sums.waiting,
      p50: quantile(buckets, last.bounds, 0.5),
      p99: quantile(buckets, last.bounds, 0.99),
    };
  }
}

/** Pairs the counters of two samples; a version whose counters went back was loaded anew and begins at zero. */
function pairs(last, before, key) {
  const found = [];
  for (const [name, now] of last.counters) {
    if (key && name !== key) continue;
    const then = before.counters.get(name);
    // A version that appears has counted what it had before, unless it is new.
    found.push([now, then && then.answered <= now.answered && then.rows <= now.rows ? then : undefined]);
  }
  return found;
}

function isSame(one, other) {
  return ["answered", "rows", "runs", "waiting"].every((name) => one[name] === other[name]) && total(one.failed) === total(other.failed);
}

function total(failed) {
  return Object.values(failed).reduce((sum, count) => sum + count, 0);
}

function addPairs(counts, now, before = []) {
  const earlier = new Map(before);
  for (const [value, count] of now) {
    counts.set(value, (counts.get(value) ?? 0) + Math.max(0, count - (earlier.get(value) ?? 0)));
  }
}

/** Returns a quantile in milliseconds, from requests by bucket; between the bounds of a bucket it is interpolated. */
export function quantile(buckets, boundsNs, share) {
  const sorted = [...buckets].filter(([, count]) => count > 0).sort(([one], [other]) => one - other);
  const all = sorted.reduce((sum, [, count]) => sum + count, 0);
  let below = 0;
  for (const [bucket, count] of sorted) {
    if (below + count >= share * all) {
      const low = bucket === 0 ? 0 : boundsNs[bucket - 1];
      const high = boundsNs[bucket] ?? low;
      return (low + ((share * all - below) / count) * (high - low)) / 1e6;
    }
    below += count;
  }
  return NaN;
}
