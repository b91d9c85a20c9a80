//! What a regular expression costs: the states of its automaton, each of which may have to be
//! looked at for each byte of a text.

use regex_automata::nfa::thompson::{self, NFA};

/// The largest automaton of a pattern, in bytes.
pub(super) const SIZE_BYTES: usize = 1024 * 1024;

/// What a pattern counts for that this dialect cannot read, or that is too large.
const UNKNOWN: u64 = 20_000;

/// A unit of work is this many looks at a state.
const LOOKS: u64 = 64;

/// The states of a pattern's automaton.
pub(super) fn states(pattern: &str) -> u64 {
    let config = thompson::Config::new().nfa_size_limit(Some(SIZE_BYTES));
    let nfa = NFA::compiler().configure(config).build(pattern);
    nfa.map_or(UNKNOWN, |nfa| nfa.states().len() as u64)
}

/// What compiling all patterns of a schema may take, in states.
pub(super) const MOST_COMPILING: u64 = 200_000;

/// What compiling a pattern takes, in states.
pub(super) fn compiling(states: u64) -> u64 {
    match states {
        UNKNOWN => 100 + UNKNOWN / 10,
        states => 100 + states,
    }
}

/// What matching a text of this many bytes takes.
pub(super) fn matching(states: u64, bytes: usize) -> u64 {
    1 + (bytes as u64).saturating_mul(states) / LOOKS
}
