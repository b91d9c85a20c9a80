//! Random expressions over random values, compared with JavaScript.
//!
//! The seed is fixed, so a run repeats itself; `WINDLASS_SEED` sets another one and
//! `WINDLASS_CASES` the number of expressions.

use serde_json::{Value as Json, json};

use super::javascript::{Question, compare};

/// A small generator of numbers (SplitMix64): tests need no other.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(super) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "10",
    "-1",
    "-2.5",
    "0.5",
    "1.005",
    "1e21",
    "1e-7",
    "255",
    "NaN",
    "Infinity",
    "-0",
    "4294967296",
    "9007199254740993",
    "0.1",
    "(1 / 3)",
    "trigger.n",
    "trigger.f",
];
const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'b'",
    "'abc'",
    "'Hello'",
    "'10'",
    "'9'",
    "' 7 '",
    "'0x1f'",
    "'a,b,c'",
    "'é😀'",
    "'\\ud83d'",
    "'null'",
    "'1e3'",
    "'AbC'",
    "trigger.s",
    "trigger.u",
    "trigger.name",
    "'\\n\\t x'",
    "','",
    "'l'",
    "'😀'",
];
const OTHERS: &[&str] = &[
    "null",
    "undefined",
    "true",
    "false",
    "trigger.nil",
    "trigger.missing",
    "({})",
    "({ a: 1, b: 'x' })",
    "trigger.o",
];
const ARRAYS: &[&str] = &[
    "[]",
    "[1, 2, 3]",
    "[3, 1, 2]",
    "['b', 'a']",
    "[1, 'a', null]",
    "[[1, 2], [3]]",
    "[undefined, NaN, 0]",
    "trigger.a",
    "trigger.items",
    "[{ k: 1 }, { k: 2 }]",
    "[true, false]",
    "Object.keys(trigger)",
];
const BINARY: &[&str] = &[
    "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "===", "!==", "&", "|", "^", "<<",
    ">>", ">>>", "&&", "||", "in",
];
const TEXT_METHODS: &[(&str, &str)] = &[
    ("at", "n"),
    ("charAt", "n"),
    ("charCodeAt", "n"),
    ("codePointAt", "n"),
    ("concat", "xx"),
    ("endsWith", "sn"),
    ("includes", "sn"),
    ("indexOf", "sn"),
    ("lastIndexOf", "sn"),
    ("padEnd", "ms"),
    ("padStart", "ms"),
    ("repeat", "m"),
    ("replace", "ss"),
    ("replaceAll", "ss"),
    ("slice", "nn"),
    ("split", "sn"),
    ("startsWith", "sn"),
    ("substr", "nn"),
    ("substring", "nn"),
    ("toLowerCase", ""),
    ("toUpperCase", ""),
    ("trim", ""),
    ("trimEnd", ""),
    ("trimStart", ""),
    ("toString", ""),
    ("replaceAll", "sf"),
    ("hasOwnProperty", "n"),
];
const LIST_METHODS: &[(&str, &str)] = &[
    ("at", "n"),
    ("concat", "xx"),
    ("every", "f"),
    ("filter", "f"),
    ("find", "f"),
    ("findIndex", "f"),
    ("findLast", "f"),
    ("findLastIndex", "f"),
    ("flat", "n"),
    ("flatMap", "f"),
    ("includes", "xn"),
    ("indexOf", "xn"),
    ("join", "s"),
    ("lastIndexOf", "xn"),
    ("map", "f"),
    ("reduce", "fx"),
    ("reduceRight", "fx"),
    ("toReversed", ""),
    ("slice", "nn"),
    ("some", "f"),
    ("toSorted", ""),
    ("toSpliced", "nnx"),
    ("with", "nx"),
    ("toString", ""),
    ("reduce", "f"),
];
const NUMBER_METHODS: &[(&str, &str)] = &[
    ("toFixed", "m"),
    ("toString", "m"),
    ("toPrecision", "m"),
    ("toExponential", "m"),
    ("valueOf", ""),
];
const FUNCTIONS: &[(&str, &str)] = &[
    ("Number", "x"),
    ("String", "x"),
    ("Boolean", "x"),
    ("isNaN", "x"),
    ("isFinite", "x"),
    ("parseInt", "xm"),
    ("parseFloat", "x"),
    ("Math.max", "nnx"),
    ("Math.min", "nnx"),
    ("Math.abs", "x"),
    ("Math.round", "n"),
    ("Math.floor", "n"),
    ("Math.ceil", "n"),
    ("Math.trunc", "n"),
    ("Math.sign", "x"),
    ("Math.sqrt", "n"),
    ("Math.clz32", "n"),
    ("Math.imul", "nn"),
    ("Math.hypot", "n"),
    ("Math.fround", "n"),
    ("Object.keys", "x"),
    ("Object.values", "x"),
    ("Object.entries", "x"),
    ("Object.fromEntries", "a"),
    ("Object.is", "xx"),
    ("Object.hasOwn", "xs"),
    ("Array.isArray", "x"),
    ("Array.from", "x"),
    ("Array.of", "xx"),
    ("JSON.stringify", "x"),
    ("JSON.parse", "s"),
    ("Number.isInteger", "x"),
    ("Number.isSafeInteger", "x"),
    ("encodeURIComponent", "s"),
    ("decodeURIComponent", "s"),
    ("encodeURI", "s"),
    ("String.fromCharCode", "nn"),
];
const ARROWS: &[&str] = &[
    "x => EXPR",
    "(x, i) => EXPR",
    "() => EXPR",
    "(x, i, all) => EXPR",
    "({ k, a = EXPR }) => [k, a]",
    "([x, ...r]) => r",
    "(x = EXPR) => x",
    "(...all) => all.length",
    "x => typeof x",
    "Boolean",
    "String",
    "Number",
    "(x, y) => x + y",
    "({ length, ...x }) => x",
];

struct Author<'d> {
    dice: &'d mut Dice,
    /// Arrow parameters in sight.
    locals: Vec<&'static str>,
}

impl Author<'_> {
    /// An expression of a kind: n(umber), m(odest number), s(tring), a(rray), x (anything).
    fn write(&mut self, kind: char, depth: usize) -> String {
        // One in eight is of the wrong kind.
        let kind = if self.dice.below(8) == 0 { 'x' } else { kind };
        if depth == 0 || self.dice.below(5) == 0 {
            return self.leaf(kind);
        }
        let depth = depth - 1;
        match (kind, self.dice.below(10)) {
            ('m', _) => self
                .dice
                .pick(&["0", "1", "2", "5", "16", "20", "36", "-1", "101", "'3'"])
                .to_owned(),
            ('n', 0..=4) => format!(
                "({} {} {})",
                self.write('n', depth),
                self.dice.pick(BINARY),
                self.write('n', depth)
            ),
            ('n', 5) => format!(
                "({}{})",
                self.dice.pick(&["-", "+", "~", "!"]),
                self.write('n', depth)
            ),
            ('n', 6) => format!("{}.length", self.write('s', depth)),
            ('n', 7) => format!(
                "({} ** {})",
                self.dice.pick(&["2", "10", "(-3)", "0"]),
                self.dice.pick(&["2", "3", "-1", "0", "NaN"])
            ),
            ('s', 0..=1) => format!("({} + {})", self.write('s', depth), self.write('x', depth)),
            ('s', 2) => format!(
                "`{}${{{}}}`",
                self.dice.pick(&["", "v=", "é"]),
                self.write('x', depth)
            ),
            ('s', 3..=7) => self.method('s', TEXT_METHODS, depth),
            ('s', 8) => self.method('n', NUMBER_METHODS, depth),
            ('a', 0..=5) => self.method('a', LIST_METHODS, depth),
            ('a', 6) => format!(
                "[{}, ...{}]",
                self.write('x', depth),
                self.write('a', depth)
            ),
            ('a', 7) => format!(
                "{}.split({})",
                self.write('s', depth),
                self.write('s', depth)
            ),
            _ => self.anything(depth),
        }
    }

    fn anything(&mut self, depth: usize) -> String {
        match self.dice.below(14) {
            0 => format!(
                "({} {} {})",
                self.write('x', depth),
                self.dice.pick(BINARY),
                self.write('x', depth)
            ),
            1 => format!("({} ?? {})", self.write('x', depth), self.write('x', depth)),
            2 => format!(
                "({} ? {} : {})",
                self.write('x', depth),
                self.write('x', depth),
                self.write('x', depth)
            ),
            3 => format!(
                "{}?.{}",
                self.write('x', depth),
                self.dice.pick(&["a", "k", "length", "b", "x.y"])
            ),
            4 => format!("{}[{}]", self.write('x', depth), self.write('x', depth)),
            5 => format!("{}?.[{}]", self.write('x', depth), self.write('n', depth)),
            6 => format!(
                "({{ a: {}, [{}]: {}, ...{} }})",
                self.write('x', depth),
                self.write('x', depth),
                self.write('x', depth),
                self.write('x', depth)
            ),
            7 => format!("(typeof {})", self.write('x', depth)),
            8..=10 => {
                let (name, arguments) = FUNCTIONS[self.dice.below(FUNCTIONS.len())];
                format!("{name}({})", self.arguments(arguments, depth))
            }
            11 => self.write('s', depth),
            12 => self.write('a', depth),
            _ => self.write('n', depth),
        }
    }

    fn method(&mut self, receiver: char, methods: &[(&str, &str)], depth: usize) -> String {
        let (name, arguments) = methods[self.dice.below(methods.len())];
        let receiver = self.write(receiver, depth);
        format!("({receiver}).{name}({})", self.arguments(arguments, depth))
    }

    fn arguments(&mut self, kinds: &str, depth: usize) -> String {
        let mut written = Vec::new();
        for kind in kinds.chars() {
            // Arguments at the end may be left out.
            if kind != 'f' && self.dice.below(6) == 0 {
                break;
            }
            written.push(if kind == 'f' {
                self.arrow(depth)
            } else {
                self.write(kind, depth)
            });
        }
        written.join(", ")
    }

    fn arrow(&mut self, depth: usize) -> String {
        let shape = self.dice.pick(ARROWS);
        let outer = self.locals.len();
        let in_sight: &[&'static str] = match shape {
            "x => EXPR" => &["x"],
            "(x, i) => EXPR" => &["x", "i"],
            "(x, i, all) => EXPR" => &["x", "i", "all"],
            _ => &[],
        };
        self.locals.extend(in_sight);
        let body = self.write('x', depth.min(2));
        self.locals.truncate(outer);
        shape.replace("EXPR", &body)
    }

    fn leaf(&mut self, kind: char) -> String {
        if !self.locals.is_empty() && self.dice.below(3) == 0 {
            return self.locals[self.dice.below(self.locals.len())].to_owned();
        }
        let choices = match kind {
            'n' | 'm' => NUMBERS,
            's' => STRINGS,
            'a' => ARRAYS,
            _ => [NUMBERS, STRINGS, OTHERS, ARRAYS][self.dice.below(4)],
        };
        let chosen = self.dice.pick(choices);
        if chosen.starts_with('-') {
            format!("({chosen})")
        } else {
            chosen.to_owned()
        }
    }
}

/// An expression.
pub(super) fn expression(dice: &mut Dice) -> String {
    let kind = ['n', 's', 'a', 'x'][dice.below(4)];
    let depth = 1 + dice.below(4);
    Author {
        dice,
        locals: Vec::new(),
    }
    .write(kind, depth)
}

/// A value for the expression to read.
pub(super) fn trigger(dice: &mut Dice) -> Json {
    let numbers = [
        json!(0),
        json!(7),
        json!(-1.5),
        json!(1e21),
        json!(123_456),
        json!(0.1),
    ];
    let texts = [
        "",
        "x",
        "Hello, World",
        "42",
        " 3 ",
        "é",
        "a😀b",
        "0",
        "[1,2]",
        "%41",
    ];
    let mut number = || numbers[dice.below(numbers.len())].clone();
    let (n, f, one, two) = (number(), number(), number(), number());
    let mut text = || texts[dice.below(texts.len())];
    let (s, u, name) = (text(), text(), text());
    let items: Vec<Json> = (0..dice.below(4))
        .map(|id| json!({ "k": id, "a": name, "length": id }))
        .collect();
    json!({
        "n": n, "f": f, "s": s, "u": u, "name": name, "nil": null, "a": [one, two, u, null],
        "items": items, "o": { "x": { "y": one }, "b": two, "7": s, "a": [] }
    })
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn random_expressions_mean_what_javascript_means() {
    let seed = setting("WINDLASS_SEED", 20_260_101);
    println!("WINDLASS_SEED={seed}");
    let mut dice = Dice::new(seed);
    let questions: Vec<_> = (0..setting("WINDLASS_CASES", 6000))
        .map(|_| Question {
            source: expression(&mut dice),
            trigger: trigger(&mut dice),
        })
        .collect();
    compare(&questions);
}
