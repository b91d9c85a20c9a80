//! Sorting: stable, and safe with comparators that contradict themselves.

use std::cmp::Ordering;

use crate::ast::CallbackKind;
use crate::eval::{Evaluator, Passed};
use crate::problem::Fallible;
use crate::text::Text;
use crate::value::{ITEM_SIZE, List, Value};

/// `sort` and `toSorted`: `undefined` goes last, whatever the comparator says.
pub(super) fn sort<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let comparator = passed.optional_callback(0)?;
    // The elements, their texts, and places to merge.
    run.budget.build_many(list.len(), 4 * ITEM_SIZE)?;
    let (missing, present): (Vec<_>, Vec<_>) = list.iter().partition(Value::is_undefined);
    let mut keyed = Vec::with_capacity(present.len());
    for value in present {
        let text = if comparator.is_none() {
            value.to_text(run.budget)?
        } else {
            Text::Borrowed("")
        };
        keyed.push((text, value));
    }
    let sort = if keyed.len() < SHORT {
        insertion_sort
    } else {
        merge_sort
    };
    let sorted = sort(keyed, &mut |one, two| match comparator {
        Some(comparator) => compare(run, comparator, &one.1, &two.1),
        None => {
            run.budget.steps(1)?;
            one.0.compare(&two.0, run.budget)
        }
    })?;
    run.list(
        sorted
            .into_iter()
            .map(|(_, value)| value)
            .chain(missing)
            .collect(),
    )
}

fn compare<'a>(
    run: &mut Evaluator<'_, 'a>,
    comparator: &'a CallbackKind,
    one: &Value<'a>,
    two: &Value<'a>,
) -> Fallible<Ordering> {
    let result = run.call(comparator, &[one.clone(), two.clone()])?;
    let number = result.to_number(run.budget)?;
    // `NaN` counts as equal.
    Ok(number.partial_cmp(&0.0).unwrap_or(Ordering::Equal))
}

/// From this length on lists are merged. Below it, V8 inserts as well.
const SHORT: usize = 64;

type Compare<'c, T> = &'c mut dyn FnMut(&T, &T) -> Fallible<Ordering>;

/// Makes the same comparisons in the same order as V8, which decides the result of a
/// comparator that contradicts itself: `(a, b) => a > b` never says "before" and leaves the
/// list as it is.
fn insertion_sort<T>(mut items: Vec<T>, compare: Compare<'_, T>) -> Fallible<Vec<T>> {
    let begun = first_run(&mut items, compare)?;
    for at in begun..items.len() {
        let (mut left, mut right) = (0, at);
        while left < right {
            let middle = left + (right - left) / 2;
            if compare(&items[at], &items[middle])? == Ordering::Less {
                right = middle;
            } else {
                left = middle + 1;
            }
        }
        items[left..=at].rotate_right(1);
    }
    Ok(items)
}

/// How many elements at the beginning are in order; if they are in the opposite order, they are
/// turned around.
fn first_run<T>(items: &mut [T], compare: Compare<'_, T>) -> Fallible<usize> {
    let mut length = 1;
    let mut descending = None;
    while length < items.len() {
        let falls = compare(&items[length], &items[length - 1])? == Ordering::Less;
        if *descending.get_or_insert(falls) != falls {
            break;
        }
        length += 1;
    }
    if descending == Some(true) {
        items[..length].reverse();
    }
    Ok(length.min(items.len()))
}

/// Bottom-up, so that no array is too long for the stack; the library's sort may panic when a
/// comparator is inconsistent, and cannot fail. Places are merged, and the items moved once.
fn merge_sort<T>(items: Vec<T>, compare: Compare<'_, T>) -> Fallible<Vec<T>> {
    let mut places: Vec<usize> = (0..items.len()).collect();
    let mut merged = Vec::with_capacity(places.len());
    let mut width = 1;
    while width < places.len() {
        for pair in places.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(&items, left, right, &mut merged, compare)?;
        }
        std::mem::swap(&mut places, &mut merged);
        merged.clear();
        width *= 2;
    }
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    Ok(places
        .into_iter()
        .filter_map(|place| items[place].take())
        .collect())
}

fn merge<T>(
    items: &[T],
    mut left: &[usize],
    mut right: &[usize],
    merged: &mut Vec<usize>,
    compare: Compare<'_, T>,
) -> Fallible<()> {
    while let ([one, lefts @ ..], [two, rights @ ..]) = (left, right) {
        if compare(&items[*one], &items[*two])? == Ordering::Greater {
            merged.push(*two);
            right = rights;
        } else {
            merged.push(*one);
            left = lefts;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    Ok(())
}
