//! Which items are wanted. Monday filters what it documents as exact (ids, names, texts); the
//! rules decide again here, so that a rule means the same for every type of column.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::ActionError;

use super::board::{Column, Item, column};

/// Which items are wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Filter {
    /// All of them must hold.
    #[serde(default)]
    rules: Vec<Rule>,
}

/// A condition on a column's text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    /// A column's title or id; also `Name`, `Item ID` and `Group`.
    column: String,
    /// How the column is compared with the value.
    #[serde(default)]
    operator: Operator,
    /// What it is compared with; a list for `in` and `notIn`, nothing for `isEmpty`.
    #[serde(default)]
    value: Value,
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Operator {
    /// It is the value.
    #[default]
    Eq,
    /// It is not the value.
    #[serde(alias = "neq")]
    Ne,
    /// It is one of the values.
    #[serde(alias = "any_of")]
    In,
    /// It is none of the values.
    #[serde(alias = "not_any_of")]
    NotIn,
    /// It contains the value.
    #[serde(alias = "contains_text", alias = "contains_terms")]
    Contains,
    /// It does not contain the value.
    #[serde(alias = "not_contains_text")]
    NotContains,
    /// It begins with the value.
    #[serde(alias = "starts_with")]
    StartsWith,
    /// It ends with the value.
    #[serde(alias = "ends_with")]
    EndsWith,
    /// It is greater.
    #[serde(alias = "greater_than")]
    Gt,
    /// It is greater or the same.
    #[serde(alias = "greater_than_or_equals")]
    Gte,
    /// It is less.
    #[serde(alias = "lower_than")]
    Lt,
    /// It is less or the same.
    #[serde(alias = "lower_than_or_equal")]
    Lte,
    /// It has no value.
    #[serde(alias = "is_empty")]
    IsEmpty,
    /// It has a value.
    #[serde(alias = "is_not_empty")]
    IsNotEmpty,
}

/// Where a rule looks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Id,
    Name,
    Group,
    Column { id: String, kind: String },
}

/// The rules with their columns found.
#[derive(Debug)]
pub(super) struct Matcher<'a> {
    rules: Vec<(Field, &'a Rule)>,
}

impl Filter {
    /// The ids that the rules name, if items can be asked for by id before the columns are
    /// known.
    pub(super) fn ids(&self) -> Option<Vec<String>> {
        let rule = self.rules.iter().find(|rule| {
            let is_id = matches!(own_field(&rule.column), Some(Field::Id));
            is_id && matches!(rule.operator, Operator::Eq | Operator::In)
        })?;
        let ids = texts(&rule.value);
        let usable = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        // Monday takes at most 100 ids.
        ((1..=100).contains(&ids.len()) && ids.iter().all(usable)).then_some(ids)
    }

    /// Finds the columns.
    pub(super) fn matcher(&self, columns: &[Column]) -> Result<Matcher<'_>, ActionError> {
        let rules = self.rules.iter().map(|rule| {
            let field = match column(columns, &rule.column) {
                Some(found) => match found.kind.as_str() {
                    "name" => Field::Name,
                    "item_id" | "pulse_id" => Field::Id,
                    _ => Field::Column {
                        id: found.id.clone(),
                        kind: found.kind.clone(),
                    },
                },
                None => own_field(&rule.column).ok_or_else(|| missing(&rule.column, columns))?,
            };
            Ok((field, rule))
        });
        Ok(Matcher {
            rules: rules.collect::<Result<_, ActionError>>()?,
        })
    }
}

/// A name that is not a column's, with those there are.
pub(super) fn missing(name: &str, columns: &[Column]) -> ActionError {
    let titles: Vec<&str> = columns.iter().map(|column| column.title.as_str()).collect();
    let message = format!(
        "the board has no column '{name}'; its columns are {}",
        titles.join(", ")
    );
    ActionError::failed("MONDAY_COLUMN_NOT_FOUND", message)
}

/// What every item has without a column.
fn own_field(name: &str) -> Option<Field> {
    match name.to_ascii_lowercase().as_str() {
        "id" | "item id" | "itemid" | "item_id" => Some(Field::Id),
        "name" | "item" => Some(Field::Name),
        "group" => Some(Field::Group),
        _ => None,
    }
}

impl Matcher<'_> {
    /// The part of the rules that Monday evaluates exactly as they are meant, as `ItemsQuery`.
    pub(super) fn pushed(&self) -> Option<Value> {
        let rules: Vec<Value> = self.rules.iter().filter_map(pushed).collect();
        (!rules.is_empty()).then(|| json!({ "rules": rules, "operator": "and" }))
    }

    /// Whether a rule is about the item's own id.
    pub(super) fn is_by_id(&self) -> bool {
        self.rules.iter().any(|(field, _)| *field == Field::Id)
    }

    /// Whether an item is wanted.
    pub(super) fn accepts(&self, item: &Item) -> bool {
        self.rules.iter().all(|(field, rule)| {
            let text = match field {
                Field::Id => Some(item.id.as_str()),
                Field::Name => Some(item.name.as_str()),
                Field::Group => item.group(),
                Field::Column { id, .. } => item.text(id),
            };
            rule.holds(text.unwrap_or_default())
        })
    }
}

fn pushed((field, rule): &(Field, &Rule)) -> Option<Value> {
    let column = match field {
        Field::Name => "name",
        Field::Column { id, kind } if kind == "text" => id,
        _ => return None,
    };
    let values = texts(&rule.value);
    let can = matches!(rule.operator, Operator::Eq | Operator::In)
        && !values.is_empty()
        && values.iter().all(|value| !value.is_empty());
    can.then(|| json!({ "column_id": column, "compare_value": values, "operator": "any_of" }))
}

impl Rule {
    fn holds(&self, text: &str) -> bool {
        let values = texts(&self.value);
        let any = |fits: fn(&str, &str) -> bool| values.iter().any(|value| fits(text, value));
        let order = |wanted: fn(std::cmp::Ordering) -> bool| {
            !text.is_empty()
                && values
                    .first()
                    .is_some_and(|value| wanted(compare(text, value)))
        };
        match self.operator {
            Operator::Eq | Operator::In => any(same),
            Operator::Ne | Operator::NotIn => !any(same),
            Operator::Contains => any(|text, value| text.contains(value)),
            Operator::NotContains => !any(|text, value| text.contains(value)),
            Operator::StartsWith => any(|text, value| text.starts_with(value)),
            Operator::EndsWith => any(|text, value| text.ends_with(value)),
            Operator::Gt => order(std::cmp::Ordering::is_gt),
            Operator::Gte => order(std::cmp::Ordering::is_ge),
            Operator::Lt => order(std::cmp::Ordering::is_lt),
            Operator::Lte => order(std::cmp::Ordering::is_le),
            Operator::IsEmpty => text.is_empty(),
            Operator::IsNotEmpty => !text.is_empty(),
        }
    }
}

/// Numbers are compared as numbers, anything else as text: dates are written to sort.
fn compare(text: &str, value: &str) -> std::cmp::Ordering {
    match (text.parse::<f64>(), value.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        _ => text.cmp(value),
    }
}

fn same(text: &str, value: &str) -> bool {
    text == value || (!text.is_empty() && compare(text, value).is_eq())
}

/// The values as texts; null is the empty text.
fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match value {
        Value::Array(list) => list.iter().map(text).collect(),
        one => vec![text(one)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operator: &str, value: Value, text: &str, expected: bool) {
        let rule = json!({ "column": "C", "operator": operator, "value": value });
        let rule: Rule = serde_json::from_value(rule).expect("a rule");
        assert_eq!(rule.holds(text), expected, "{rule:?} of '{text}'");
    }

    #[test]
    fn operators_compare_texts_and_numbers() {
        check("eq", json!("In Progress"), "In Progress", true);
        check("eq", json!("In Progress"), "in progress", false);
        check("eq", json!(7), "7.0", true);
        check("eq", json!(null), "", true);
        check("ne", json!("a"), "b", true);
        check("in", json!(["a", "b"]), "b", true);
        check("any_of", json!(["a", "b"]), "c", false);
        check("notIn", json!(["a", "b"]), "c", true);
        check("contains", json!("rog"), "In Progress", true);
        check("gt", json!(9), "10", true);
        check("gt", json!("2024-01-02"), "2024-01-10", true);
        check("lte", json!(9), "", false);
        check("isEmpty", json!(null), "", true);
        check("is_not_empty", json!(null), "", false);
    }

    #[test]
    fn unknown_operators_and_columns_are_named() {
        let rule = json!({ "column": "C", "operator": "like", "value": 1 });
        assert!(serde_json::from_value::<Rule>(rule).is_err());
        let filter = json!({ "rules": [{ "column": "Nope", "value": 1 }] });
        let filter: Filter = serde_json::from_value(filter).expect("a filter");
        let error = filter.matcher(&[]).expect_err("refused");
        assert_eq!(&*error.code, "MONDAY_COLUMN_NOT_FOUND");
        assert!(error.message.contains("Nope"));
    }

    #[test]
    fn ids_and_texts_are_filtered_by_monday_and_the_rest_here() {
        let filter = json!({ "rules": [
            { "column": "Item ID", "operator": "eq", "value": 456 },
            { "column": "Status", "operator": "eq", "value": "Done" },
            { "column": "Owner", "operator": "eq", "value": "me" } ] });
        let filter: Filter = serde_json::from_value(filter).expect("a filter");
        assert_eq!(filter.ids(), Some(vec!["456".to_owned()]));
        let column = |id: &str, title: &str, kind: &str| Column {
            id: id.to_owned(),
            title: title.to_owned(),
            kind: kind.to_owned(),
        };
        let columns = [
            column("s", "Status", "status"),
            column("t", "Owner", "text"),
        ];
        let matcher = filter.matcher(&columns).expect("columns");
        let rule = json!({ "column_id": "t", "compare_value": ["me"], "operator": "any_of" });
        let expected = json!({ "rules": [rule], "operator": "and" });
        assert_eq!(matcher.pushed(), Some(expected));
    }
}
