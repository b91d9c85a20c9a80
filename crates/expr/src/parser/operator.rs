//! Operators of two operands, by precedence, without recursion.

use super::{Parsed, Parser};
use crate::ast::{Binary, Kind, Logical, Node};
use crate::lexer::Token;
use crate::problem::{Problem, SYNTAX};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Plain(Binary),
    Logical(Logical),
    Power,
}

const POWER: u8 = 12;

impl Parser<'_> {
    /// Everything that binds tighter than `? :`.
    pub(super) fn operators(&mut self) -> Parsed<Node> {
        let mut operands = vec![self.unary()?];
        let mut waiting: Vec<(Operator, u8)> = Vec::new();
        while let Some((operator, precedence)) = self.operator() {
            // `**` alone associates to the right.
            while waiting.last().is_some_and(|(_, other)| {
                *other > precedence || (*other == precedence && precedence != POWER)
            }) {
                reduce(&mut operands, &mut waiting)?;
            }
            if operator == Operator::Power
                && let Some(left) = operands.last()
                && matches!(left.kind, Kind::Unary(..))
                && !left.parenthesized
            {
                let message = "put the operand before `**` in parentheses";
                return Err(Problem::new(SYNTAX, message, left.start, left.end));
            }
            self.advance()?;
            waiting.push((operator, precedence));
            operands.push(self.unary()?);
        }
        while !waiting.is_empty() {
            reduce(&mut operands, &mut waiting)?;
        }
        operands.pop().ok_or_else(|| self.unexpected())
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        use Operator::{Logical as Logic, Plain, Power};
        let text = match &self.token {
            Token::Punctuator(text) => text,
            Token::Name(name) if **name == *"in" => "in",
            _ => return None,
        };
        Some(match text {
            "??" => (Logic(Logical::Coalesce), 1),
            "||" => (Logic(Logical::Or), 2),
            "&&" => (Logic(Logical::And), 3),
            "|" => (Plain(Binary::BitOr), 4),
            "^" => (Plain(Binary::BitXor), 5),
            "&" => (Plain(Binary::BitAnd), 6),
            "==" => (Plain(Binary::Equal), 7),
            "!=" => (Plain(Binary::NotEqual), 7),
            "===" => (Plain(Binary::StrictEqual), 7),
            "!==" => (Plain(Binary::StrictNotEqual), 7),
            "<" => (Plain(Binary::Less), 8),
            "<=" => (Plain(Binary::LessOrEqual), 8),
            ">" => (Plain(Binary::Greater), 8),
            ">=" => (Plain(Binary::GreaterOrEqual), 8),
            "in" => (Plain(Binary::In), 8),
            "<<" => (Plain(Binary::ShiftLeft), 9),
            ">>" => (Plain(Binary::ShiftRight), 9),
            ">>>" => (Plain(Binary::ShiftRightUnsigned), 9),
            "+" => (Plain(Binary::Add), 10),
            "-" => (Plain(Binary::Subtract), 10),
            "*" => (Plain(Binary::Multiply), 11),
            "/" => (Plain(Binary::Divide), 11),
            "%" => (Plain(Binary::Remainder), 11),
            "**" => (Power, POWER),
            _ => return None,
        })
    }
}

/// Joins the last two operands by the last operator.
fn reduce(operands: &mut Vec<Node>, waiting: &mut Vec<(Operator, u8)>) -> Parsed<()> {
    let (Some((operator, precedence)), Some(right), Some(left)) =
        (waiting.pop(), operands.pop(), operands.pop())
    else {
        return Ok(());
    };
    let (start, end) = (left.start, right.end);
    let kind = match operator {
        Operator::Plain(operator) => join_plain(operator, precedence, left, right),
        Operator::Logical(operator) => join_logical(operator, left, right)?,
        Operator::Power => join_power(left, right),
    };
    operands.push(Node {
        kind,
        start,
        end,
        parenthesized: false,
    });
    Ok(())
}

fn join_plain(operator: Binary, level: u8, mut left: Node, right: Node) -> Kind {
    if !left.parenthesized
        && let Kind::Binary(_, rest) = &mut left.kind
        && rest
            .last()
            .is_some_and(|(other, _)| precedence(*other) == level)
        && let Kind::Binary(first, mut rest) = std::mem::replace(&mut left.kind, Kind::Undefined)
    {
        rest.push((operator, right));
        return Kind::Binary(first, rest);
    }
    Kind::Binary(Box::new(left), vec![(operator, right)])
}

fn precedence(operator: Binary) -> u8 {
    match operator {
        Binary::BitOr => 4,
        Binary::BitXor => 5,
        Binary::BitAnd => 6,
        Binary::Equal | Binary::NotEqual | Binary::StrictEqual | Binary::StrictNotEqual => 7,
        Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual
        | Binary::In => 8,
        Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => 9,
        Binary::Add | Binary::Subtract => 10,
        Binary::Multiply | Binary::Divide | Binary::Remainder => 11,
    }
}

fn join_logical(operator: Logical, left: Node, right: Node) -> Parsed<Kind> {
    for side in [&left, &right] {
        if let Kind::Logical(other, _) = side.kind
            && !side.parenthesized
            && (other == Logical::Coalesce) != (operator == Logical::Coalesce)
        {
            let message = "`??` beside `||` or `&&` needs parentheses";
            return Err(Problem::new(SYNTAX, message, left.start, right.end));
        }
    }
    match left {
        Node {
            kind: Kind::Logical(other, mut operands),
            parenthesized: false,
            ..
        } if other == operator => {
            operands.push(right);
            Ok(Kind::Logical(operator, operands))
        }
        _ => Ok(Kind::Logical(operator, vec![left, right])),
    }
}

fn join_power(left: Node, right: Node) -> Kind {
    match right {
        Node {
            kind: Kind::Power(mut operands),
            parenthesized: false,
            ..
        } => {
            operands.push(left);
            Kind::Power(operands)
        }
        _ => Kind::Power(vec![right, left]),
    }
}
