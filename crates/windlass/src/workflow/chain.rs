//! The order of the steps. Positions are names, resolved only when all steps are known:
//! "the previous step" is whatever comes before after every insertion.

/// Where a step stands in the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Position {
    /// After the steps declared so far.
    #[default]
    Next,
    /// Directly after this step.
    After(Box<str>),
    /// Directly before this step.
    Before(Box<str>),
}

impl Position {
    /// The step that the position is relative to.
    pub(super) fn anchor(&self) -> Option<&str> {
        match self {
            Self::Next => None,
            Self::After(name) | Self::Before(name) => Some(name),
        }
    }
}

/// Puts steps, given in the order of their declaration, into the order of the chain.
/// Every anchor is one of them.
///
/// # Errors
/// The steps whose positions depend on each other in a circle.
pub(super) fn order(steps: &[(&str, &Position)]) -> Result<Vec<usize>, Vec<usize>> {
    let (mut chain, mut waiting): (Vec<usize>, Vec<usize>) =
        (0..steps.len()).partition(|&step| *steps[step].1 == Position::Next);
    while !waiting.is_empty() {
        let before = waiting.len();
        waiting.retain(|&step| !insert(&mut chain, steps, step));
        if waiting.len() == before {
            return Err(waiting);
        }
    }
    Ok(chain)
}

/// Inserts a step beside its anchor, if that has its place already.
fn insert(chain: &mut Vec<usize>, steps: &[(&str, &Position)], step: usize) -> bool {
    let position = steps[step].1;
    let Some(place) = chain
        .iter()
        .position(|&other| Some(steps[other].0) == position.anchor())
    else {
        return false;
    };
    let after = usize::from(matches!(position, Position::After(_)));
    chain.insert(place + after, step);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps: &[(&str, Position)], expected: &str) {
        let steps: Vec<_> = steps.iter().map(|(name, place)| (*name, place)).collect();
        let names = |list: &[usize]| -> Vec<&str> { list.iter().map(|&at| steps[at].0).collect() };
        let found = match order(&steps) {
            Ok(chain) => names(&chain).join(" "),
            Err(circle) => format!("circle: {}", names(&circle).join(" ")),
        };
        assert_eq!(found, expected);
    }

    fn after(name: &str) -> Position {
        Position::After(name.into())
    }

    fn before(name: &str) -> Position {
        Position::Before(name.into())
    }

    #[test]
    fn steps_follow_each_other_as_declared() {
        check(&[], "");
        check(&[("a", Position::Next), ("b", Position::Next)], "a b");
    }

    #[test]
    fn an_insertion_stands_beside_its_anchor() {
        let next = || Position::Next;
        check(&[("a", next()), ("b", next()), ("x", after("a"))], "a x b");
        check(&[("a", next()), ("b", next()), ("x", before("b"))], "a x b");
        check(&[("a", next()), ("x", before("a"))], "x a");
        check(&[("a", next()), ("x", after("a")), ("b", next())], "a x b");
    }

    #[test]
    fn the_latest_insertion_is_the_nearest() {
        let next = || Position::Next;
        let steps = [("a", next()), ("x", after("a")), ("y", after("a"))];
        check(&steps, "a y x");
        let steps = [("a", next()), ("x", before("a")), ("y", before("a"))];
        check(&steps, "x y a");
    }

    #[test]
    fn an_anchor_may_be_inserted_or_declared_later() {
        let next = || Position::Next;
        check(
            &[("x", after("y")), ("y", after("a")), ("a", next())],
            "a y x",
        );
    }

    #[test]
    fn circles_are_named() {
        let next = || Position::Next;
        check(
            &[("a", next()), ("x", after("y")), ("y", before("x"))],
            "circle: x y",
        );
        check(&[("x", after("x"))], "circle: x");
    }

    /// The chain as one that is changed at each declaration: what the order must equal
    /// where every anchor is declared before.
    fn step_by_step(steps: &[(String, Position)]) -> Vec<&str> {
        let mut chain: Vec<&str> = Vec::new();
        for (name, position) in steps {
            let anchor = |chain: &[&str]| {
                let at = chain
                    .iter()
                    .position(|known| Some(*known) == position.anchor());
                at.expect("declared before")
            };
            let place = match position {
                Position::Next => chain.len(),
                Position::After(_) => anchor(&chain) + 1,
                Position::Before(_) => anchor(&chain),
            };
            chain.insert(place, name);
        }
        chain
    }

    #[test]
    fn binding_late_is_inserting_at_once_where_both_can_be() {
        let mut number = 1_u64;
        let mut draw = |below: usize| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (number >> 33) as usize % below
        };
        for _ in 0..500 {
            let mut steps: Vec<(String, Position)> = Vec::new();
            for at in 0..12 {
                let position = match draw(3) {
                    1 if at > 0 => after(&steps[draw(at)].0),
                    2 if at > 0 => before(&steps[draw(at)].0),
                    _ => Position::Next,
                };
                steps.push((format!("s{at}"), position));
            }
            let named: Vec<(&str, &Position)> =
                steps.iter().map(|(name, place)| (&**name, place)).collect();
            let order = order(&named).expect("no circle");
            let late: Vec<&str> = order.iter().map(|&at| named[at].0).collect();
            assert_eq!(late, step_by_step(&steps), "{steps:?}");
        }
    }
}
