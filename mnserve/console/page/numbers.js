// Numbers as people read them.

/** Writes a number with three significant digits, and separators from a thousand on. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: value < 1 && value > 0 ? 3 : digits });
}

/** Writes milliseconds with their unit. */
export function milliseconds(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
}

/** Writes a share of one as a percentage. */
export function percent(value) {
  return `${(100 * value).toFixed(1)} %`;
}

/** Returns the middle of some numbers; NaN without any. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length === 0 ? NaN : sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
