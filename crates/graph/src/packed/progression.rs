//! Sorted numbers, written as arithmetic progressions: the members of a group stand at regular
//! distances in most definitions, so 100,000 of them take a few bytes.

use serde::Serialize;
use serde::ser::{SerializeTuple as _, Serializer};

/// `first`, `first + step`, … `count` times; as JSON `[first, count, step]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression {
    /// The first number.
    pub first: usize,
    /// How many there are.
    pub count: usize,
    /// From one to the next.
    pub step: usize,
}

impl Serialize for Progression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(3)?;
        tuple.serialize_element(&self.first)?;
        tuple.serialize_element(&self.count)?;
        tuple.serialize_element(&self.step)?;
        tuple.end()
    }
}

impl Progression {
    /// The progressions that ascending numbers make, each as long as it goes.
    pub(super) fn all(numbers: &[usize]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for &number in numbers {
            match found.last_mut() {
                Some(last) if last.count == 1 => {
                    last.step = number - last.first;
                    last.count = 2;
                }
                Some(last) if last.first + last.step * last.count == number => last.count += 1,
                _ => found.push(Self {
                    first: number,
                    count: 1,
                    step: 1,
                }),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[usize], expected: &str) {
        let found = Progression::all(numbers);
        let spelt: Vec<usize> = found
            .iter()
            .flat_map(|it| (0..it.count).map(|place| it.first + place * it.step))
            .collect();
        assert_eq!(spelt, numbers);
        assert_eq!(serde_json::to_string(&found).expect("JSON"), expected);
    }

    #[test]
    fn numbers_are_spelt_by_their_distances() {
        check(&[], "[]");
        check(&[7], "[[7,1,1]]");
        check(&[1, 2, 3, 4], "[[1,4,1]]");
        check(&[1, 3, 5, 6, 7, 20], "[[1,3,2],[6,2,1],[20,1,1]]");
    }
}
