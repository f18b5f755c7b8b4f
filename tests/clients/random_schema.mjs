// Random JSON schemas within what docs/structured-output.md lists, from a seeded generator.

// mulberry32: 32 bits of state, the same numbers everywhere.
export function randomSource(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count) => Math.floor(next() * count);
  return {below, chance: () => below(2) === 0, pick: (list) => list[below(list.length)]};
}

const names = ['name', 'age', 'größe', 'first_name', 'tags', 'a"b', '都市'];

function string({below, pick}) {
  switch (below(4)) {
    case 0:
      return {type: 'string', pattern: pick(['^[a-z]{1,12}$', '^(foo|bar)-\\d{1,3}$', '^[^\\s,]{2,5}$'])};
    case 1:
      return {type: 'string', format: pick(['date', 'uuid', 'ipv4', 'email', 'date-time'])};
    case 2:
      return {enum: ['red', 'grün', 'blue, or "else"', '']};
    default: {
      const minLength = below(4);
      return {type: 'string', minLength, maxLength: minLength + below(20)};
    }
  }
}

function number({below, chance, pick}) {
  const schema = {type: pick(['integer', 'number'])};
  if (chance()) schema.minimum = below(300) - 200;
  if (chance()) schema.exclusiveMaximum = 101.5 + below(1000);
  if (schema.type === 'integer' && below(4) === 0) schema.multipleOf = 1 + below(9);
  return schema;
}

function object(source, depth) {
  const schema = {type: 'object', properties: {}, required: [], additionalProperties: false};
  for (const name of names) {
    if (source.below(5) < 2) continue;
    schema.properties[name] = value(source, depth - 1);
    if (source.chance()) schema.required.push(name);
  }
  if (source.below(4) === 0) schema.additionalProperties = {type: ['boolean', 'null']};
  return schema;
}

function value(source, depth) {
  const {below, pick} = source;
  switch (below(depth > 0 ? 10 : 4)) {
    case 0:
    case 1:
      return string(source);
    case 2:
      return number(source);
    case 3:
      return pick([{type: ['boolean', 'null']}, {const: 'fixed'}, {enum: [1, 'zwei', null, 2.5, ['é']]}]);
    case 4:
    case 5: {
      const minItems = below(3);
      return {type: 'array', items: value(source, depth - 1), minItems, maxItems: minItems + below(3)};
    }
    case 6:
      return {anyOf: [value(source, depth - 1), value(source, depth - 1)]};
    case 7:
      return {$ref: '#/$defs/node'};
    default:
      return object(source, depth);
  }
}

export function randomSchema(source) {
  return {
    ...object(source, 3),
    $defs: {
      node: {
        type: 'object',
        properties: {v: {type: 'integer'}, next: {$ref: '#/$defs/node'}},
        additionalProperties: false,
      },
    },
  };
}
