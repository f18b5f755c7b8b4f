import {expect, it} from 'vitest';
import {bytes, count, milliseconds, percent, short} from './format';

it('short keeps three digits', () => {
  expect([0, 0.5, 7, 42.4, 999, 1000, 12345, 999_999, 2.5e6].map(short)).toEqual([
    '0', '0.5', '7', '42', '999', '1.00k', '12.3k', '1.00M', '2.50M',
  ]);
});

it('bytes climb by 1024', () => {
  expect([0, 512, 1536, 1 << 20, 3 * 2 ** 30].map(bytes)).toEqual([
    '0 B', '512 B', '1.5 KiB', '1.0 MiB', '3.0 GiB',
  ]);
});

it('times have the unit that fits', () => {
  expect([0.2, 31.4, 1500, 120_000].map(milliseconds)).toEqual(['<1 ms', '31 ms', '1.5 s', '120 s']);
});

it('counts have separators, shares are whole percents', () => {
  expect(count(1234567.4)).toBe('1,234,567');
  expect(percent(0.666)).toBe('67 %');
});
