//! How much work checking a value against a schema takes, counted before it is done.
//!
//! The count follows the value from the top. At each part of it stands a set of subschemas,
//! each with how often it is reached there; those that see the same value pass their number
//! on, and those that see a part hand it down. No branch counts as decided: the count is the
//! work of a validator that never stops early. Counting itself takes no more than the work
//! counted. Must not know what checks the value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::graph::{SchemaGraph, Subschema, SubschemaIndex, weight};
use super::pattern::{MOST_COMPILING, matching};

/// How deep a check may be nested: subschemas inside subschemas, over all parts of a value.
pub(super) const MOST_NESTING: u64 = 512;

/// What a check takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Subschemas visited, with what each compares.
    pub(super) checking: u64,
    /// The same if each level asks all below it once more, as reporting does.
    pub(super) reporting: u64,
    /// The deepest visit.
    pub(super) nesting: u64,
}

/// How often a subschema is reached at one part of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    times: u64,
    /// The sum over all times of how deep it is reached.
    depths: u64,
    deepest: u64,
}

impl Reached {
    fn add(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.depths = self.depths.saturating_add(other.depths);
        self.deepest = self.deepest.max(other.deepest);
    }

    /// The same, one level deeper.
    fn below(self, factor: u64) -> Self {
        Self {
            times: self.times.saturating_mul(factor),
            depths: self
                .depths
                .saturating_add(self.times)
                .saturating_mul(factor),
            deepest: self.deepest.saturating_add(1),
        }
    }
}

/// Why a subschema is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// To check the value.
    Check,
    /// To find out which parts of the value it has looked at, for `unevaluated…`: all that see
    /// the same value are checked again, and asked the same.
    Mark,
}

/// A schema's graph, put into an order in which references only go forward.
#[derive(Debug)]
pub(super) struct Ordered {
    graph: SchemaGraph,
    /// Where each subschema comes.
    rank: Vec<usize>,
    /// Which subschema comes there.
    at: Vec<SubschemaIndex>,
    /// What each match of a pattern takes in addition.
    pub(super) match_work: u64,
}

impl Ordered {
    /// Orders a graph; none if a subschema refers to itself for the same value.
    pub(super) fn new(graph: SchemaGraph) -> Option<Self> {
        let count = graph.subschemas.len();
        let mut incoming = vec![0usize; count];
        for subschema in &graph.subschemas {
            subschema
                .same_value()
                .for_each(|place| incoming[place] += 1);
        }
        let mut at: Vec<SubschemaIndex> =
            (0..count).filter(|&place| incoming[place] == 0).collect();
        let mut next = 0;
        while let Some(&place) = at.get(next) {
            next += 1;
            for target in graph.subschemas[place].same_value() {
                incoming[target] -= 1;
                if incoming[target] == 0 {
                    at.push(target);
                }
            }
        }
        if at.len() < count {
            return None;
        }
        let mut rank = vec![0; count];
        at.iter()
            .enumerate()
            .for_each(|(order, &place)| rank[place] = order);
        Some(Self {
            graph,
            rank,
            at,
            match_work: 0,
        })
    }

    pub(super) fn branches(&self) -> bool {
        self.graph.branches
    }

    /// The most visits that one part of a value can cause, and how deep they are nested.
    pub(super) fn expansion(&self) -> (u64, u64) {
        let count = self.at.len();
        let (mut check, mut mark) = (vec![0u64; count], vec![0u64; count]);
        let (mut nesting, mut most) = (vec![0u64; count], (0, 0));
        for &place in self.at.iter().rev() {
            let subschema = &self.graph.subschemas[place];
            let (mut checks, mut marks, mut deep) = (1u64, 1u64, 0);
            for target in subschema.same_value() {
                checks = checks.saturating_add(check[target]);
                marks = marks
                    .saturating_add(check[target])
                    .saturating_add(mark[target]);
                deep = deep.max(nesting[target]);
            }
            checks = checks.saturating_add(marks.saturating_mul(subschema.unevaluated));
            (check[place], mark[place], nesting[place]) = (checks, marks, deep + 1);
            most = (most.0.max(checks), most.1.max(deep + 1));
        }
        most
    }

    /// What compiling the patterns takes, if the most that they may take counts as `whole`.
    pub(super) fn pattern_cost(&self, whole: u64) -> u64 {
        self.graph.pattern_work * whole / MOST_COMPILING
    }

    /// How many validators compiling the schema makes: what is referred to is made once, but
    /// what stands beside `unevaluated…` is made again for it. None if that has no end.
    pub(super) fn compiled(&self, most: u64) -> Option<u64> {
        let mut count = Compiled {
            graph: &self.graph,
            check: vec![None; self.at.len()],
            mark: vec![None; self.at.len()],
            nesting: 0,
        };
        let mut sum = 0u64;
        for place in 0..self.at.len() {
            sum = sum.saturating_add(count.check(place)?);
            if sum > most {
                return None;
            }
        }
        Some(sum)
    }

    /// What checking a value takes; none if it is more than `budget`.
    pub(super) fn work(&self, value: &Value, budget: u64) -> Option<Work> {
        let mut counter = Counter {
            schema: self,
            budget,
            work: Work::default(),
        };
        let whole = Reached {
            times: 1,
            depths: 1,
            deepest: 1,
        };
        let seeds = BTreeMap::from([((self.rank[0], Purpose::Check), whole)]);
        counter.visit(Part::Value(value), seeds)?;
        Some(counter.work)
    }
}

/// A part of a value: a value, or the name of a member.
#[derive(Clone, Copy)]
enum Part<'v> {
    Value(&'v Value),
    Name(&'v str),
}

type Reachable = BTreeMap<(usize, Purpose), Reached>;

struct Counter<'s> {
    schema: &'s Ordered,
    budget: u64,
    work: Work,
}

impl<'s> Counter<'s> {
    /// Counts what stands at a part of the value, and all below it.
    fn visit(&mut self, part: Part<'_>, mut reachable: Reachable) -> Option<()> {
        let schema: &'s Ordered = self.schema;
        let mut handing_down = Vec::new();
        while let Some(((rank, purpose), reached)) = reachable.pop_first() {
            let place = schema.at[rank];
            let subschema = &schema.graph.subschemas[place];
            self.charge(self.cost(subschema, part), reached)?;
            let mut reach = |place: SubschemaIndex, purpose, factor| {
                let key = (schema.rank[place], purpose);
                reachable.entry(key).or_default().add(reached.below(factor));
            };
            for target in subschema.same_value() {
                reach(target, Purpose::Check, 1);
                if purpose == Purpose::Mark {
                    reach(target, Purpose::Mark, 1);
                }
            }
            if purpose == Purpose::Check && subschema.unevaluated > 0 {
                reach(place, Purpose::Mark, subschema.unevaluated);
            }
            if subschema.parts().next().is_some() {
                handing_down.push((subschema, reached));
            }
        }
        match part {
            Part::Value(Value::Object(members)) if !handing_down.is_empty() => {
                for (name, value) in members {
                    let (of_name, of_value) = self.member(name, &handing_down);
                    if !of_name.is_empty() {
                        self.visit(Part::Name(name), of_name)?;
                    }
                    if !of_value.is_empty() {
                        self.visit(Part::Value(value), of_value)?;
                    }
                }
            }
            Part::Value(Value::Array(items)) if !handing_down.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    let of_item = self.item(at, &handing_down);
                    if !of_item.is_empty() {
                        self.visit(Part::Value(item), of_item)?;
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    fn charge(&mut self, cost: u64, reached: Reached) -> Option<()> {
        let work = &mut self.work;
        work.checking = work
            .checking
            .saturating_add(reached.times.saturating_mul(cost));
        work.reporting = work
            .reporting
            .saturating_add(reached.depths.saturating_mul(cost));
        work.nesting = work.nesting.max(reached.deepest);
        (work.checking <= self.budget && work.nesting <= MOST_NESTING).then_some(())
    }

    /// What one visit takes, without what it hands on.
    fn cost(&self, subschema: &Subschema, part: Part<'_>) -> u64 {
        let mut cost = subschema.own;
        let text = match part {
            Part::Name(name) => Some(name),
            Part::Value(Value::String(text)) => Some(text.as_str()),
            Part::Value(_) => None,
        };
        if let Some(text) = text {
            cost += u64::from(subschema.reads_text) * (1 + text.len() as u64 / 8);
            if subschema.pattern > 0 {
                cost += self.schema.match_work + matching(subschema.pattern, text.len());
            }
        }
        match part {
            Part::Value(Value::Object(members)) => {
                cost += members.len() as u64;
                for (states, _) in &subschema.patterns {
                    let names = members.keys();
                    let each = names.map(|name| matching(*states, name.len()));
                    cost += self.schema.match_work * members.len() as u64 + each.sum::<u64>();
                }
            }
            Part::Value(list @ Value::Array(items)) => {
                cost += items.len() as u64;
                cost += if subschema.unique {
                    distinct(list, items)
                } else {
                    0
                };
            }
            _ => {}
        }
        cost
    }

    /// What stands at a member's name, and what at its value.
    fn member(&self, name: &str, above: &[(&Subschema, Reached)]) -> (Reachable, Reachable) {
        let (mut of_name, mut of_value) = (Reachable::new(), Reachable::new());
        for (subschema, reached) in above {
            let known = subschema.properties.get(name);
            let additional = subschema.additional.iter().filter(|_| known.is_none());
            let patterns = subschema.patterns.iter().map(|(_, place)| place);
            let values = known.into_iter().chain(additional).chain(patterns);
            for place in values.chain(&subschema.members) {
                self.reach(&mut of_value, *place, *reached);
            }
            for place in &subschema.names {
                self.reach(&mut of_name, *place, *reached);
            }
        }
        (of_name, of_value)
    }

    /// What stands at an item.
    fn item(&self, at: usize, above: &[(&Subschema, Reached)]) -> Reachable {
        let mut reachable = Reachable::new();
        for (subschema, reached) in above {
            let own = subschema.prefix.get(at);
            let rest = subschema.rest.iter().filter(|_| own.is_none());
            for place in own.into_iter().chain(rest).chain(&subschema.items) {
                self.reach(&mut reachable, *place, *reached);
            }
        }
        reachable
    }

    fn reach(&self, reachable: &mut Reachable, place: SubschemaIndex, reached: Reached) {
        let key = (self.schema.rank[place], Purpose::Check);
        reachable.entry(key).or_default().add(reached.below(1));
    }
}

struct Compiled<'g> {
    graph: &'g SchemaGraph,
    check: Vec<Option<u64>>,
    mark: Vec<Option<u64>>,
    nesting: u64,
}

impl Compiled<'_> {
    fn check(&mut self, place: SubschemaIndex) -> Option<u64> {
        if let Some(known) = self.check[place] {
            return Some(known);
        }
        // A validator that is being made is shared by references back to it.
        self.check[place] = Some(1);
        self.deeper()?;
        let subschema = &self.graph.subschemas[place];
        let mut sum = 1u64;
        for part in subschema.inline.iter().copied().chain(subschema.parts()) {
            sum = sum.saturating_add(self.check(part)?);
        }
        if subschema.unevaluated > 0 {
            let marks = self.mark(place)?.saturating_mul(subschema.unevaluated);
            sum = sum.saturating_add(marks);
        }
        self.nesting -= 1;
        self.check[place] = Some(sum);
        Some(sum)
    }

    fn mark(&mut self, place: SubschemaIndex) -> Option<u64> {
        if let Some(known) = self.mark[place] {
            return Some(known);
        }
        self.mark[place] = Some(1);
        self.deeper()?;
        let subschema = &self.graph.subschemas[place];
        let mut sum = 1u64;
        for &part in &subschema.inline {
            sum = sum.saturating_add(self.check(part)?);
            sum = sum.saturating_add(self.mark(part)?);
        }
        for &target in &subschema.references {
            sum = sum.saturating_add(self.mark(target)?);
        }
        for part in subschema.parts() {
            sum = sum.saturating_add(self.check(part)?);
        }
        self.nesting -= 1;
        self.mark[place] = Some(sum);
        Some(sum)
    }

    fn deeper(&mut self) -> Option<()> {
        self.nesting += 1;
        (self.nesting <= MOST_NESTING).then_some(())
    }
}

/// What finding two equal items takes. Texts and small numbers are distinguished by their hash;
/// lists, objects and large numbers may all have the same, and are then compared each with each.
fn distinct(list: &Value, items: &[Value]) -> u64 {
    let is_hashed_well = |item: &Value| match item {
        Value::Array(_) | Value::Object(_) => false,
        Value::Number(number) => number.to_string().len() <= EXACT_DIGITS,
        _ => true,
    };
    let others = items.iter().filter(|item| !is_hashed_well(item));
    let (count, heavy) = others.fold((0u64, 0u64), |(count, heavy), item| {
        (count + 1, heavy.saturating_add(weight(item)))
    });
    weight(list).saturating_add(count.saturating_mul(heavy))
}

/// Numbers of so many characters are exact as floating-point numbers.
const EXACT_DIGITS: usize = 15;
