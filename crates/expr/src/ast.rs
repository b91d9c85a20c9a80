//! The shape of an expression: what the parser builds, the checker resolves and the evaluator walks.
//!
//! Chains of operators of one precedence and chains of accesses are flat, so the depth of a
//! tree is bounded by how deep its source is nested, never by how long it is.

use crate::functions::{Function, Methods};

/// One part of an expression.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Byte range in the source.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Parentheses keep a chain from growing into this node.
    pub(crate) parenthesized: bool,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    String(Literal),
    Template(Vec<Chunk>),
    Array(Vec<Element>),
    Object(Vec<Property>),
    /// A name that is not resolved yet; none is left once the checker is done.
    Name(Box<str>),
    /// A slot of the inputs.
    Input(usize),
    /// A slot of the arrow parameters.
    Local(usize),
    Access(Box<Access>),
    Call(Box<Call>),
    Unary(Unary, Box<Node>),
    Binary(Box<Node>, Vec<(Binary, Node)>),
    /// The operands of `a ** b ** c`, last one first.
    Power(Vec<Node>),
    Logical(Logical, Vec<Node>),
    /// Condition, then, otherwise.
    Conditional(Box<[Node; 3]>),
}

/// A string constant. Lone surrogates can only be written as code units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Plain(Box<str>),
    Wide(Box<[u16]>),
}

/// A part of a template literal.
#[derive(Debug)]
pub(crate) enum Chunk {
    Text(Literal),
    Value(Node),
}

/// An element of an array or an argument of a call.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) node: Node,
    pub(crate) spread: bool,
}

/// A property of an object literal.
#[derive(Debug)]
pub(crate) enum Property {
    Named(Literal, Node),
    Computed(Node, Node),
    Spread(Node),
}

/// A base and what is read from it, one link after another.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) base: Node,
    pub(crate) links: Vec<Link>,
}

/// One step of an access.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) kind: LinkKind,
    /// Written with `?.`: if the base is null or undefined, the whole chain gives `undefined`.
    pub(crate) optional: bool,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug)]
pub(crate) enum LinkKind {
    Field(Literal),
    Index(Node),
    Method(Box<MethodCall>),
}

/// `.name(arguments)`.
#[derive(Debug)]
pub(crate) struct MethodCall {
    pub(crate) name: Box<str>,
    /// `None` until the checker has looked the name up.
    pub(crate) methods: Option<Methods>,
    pub(crate) arguments: Arguments,
    /// Written `.name?.(…)`.
    pub(crate) optional_call: bool,
}

/// `name(arguments)` or `Namespace.name(arguments)`.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Box<str>,
    /// `None` until the checker has looked the name up.
    pub(crate) function: Option<&'static Function>,
    pub(crate) arguments: Arguments,
}

/// The arguments of a call: values, and at most one function.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// In order; the callback leaves `undefined` in its place.
    pub(crate) values: Vec<Element>,
    pub(crate) callback: Option<Callback>,
}

/// A function given to a method.
#[derive(Debug)]
pub(crate) struct Callback {
    pub(crate) position: usize,
    pub(crate) start: usize,
    pub(crate) kind: CallbackKind,
}

#[derive(Debug)]
pub(crate) enum CallbackKind {
    Arrow(Box<Arrow>),
    /// A function of the language by its name, as in `.map(Number)`.
    Function(&'static Function),
}

/// `(parameters) => body`.
#[derive(Debug)]
pub(crate) struct Arrow {
    pub(crate) parameters: Vec<Target>,
    pub(crate) rest: Option<Pattern>,
    pub(crate) body: Node,
}

/// A pattern with what to take when the value is `undefined`.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) pattern: Pattern,
    pub(crate) default: Option<Node>,
}

/// What an arrow parameter binds.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// A name and its slot, which the checker gives out.
    Name {
        name: Box<str>,
        slot: usize,
        start: usize,
    },
    Object {
        properties: Vec<(PatternKey, Target)>,
        rest: Option<Box<Pattern>>,
    },
    /// `None` skips one element.
    Array {
        elements: Vec<Option<Target>>,
        rest: Option<Box<Pattern>>,
    },
}

#[derive(Debug)]
pub(crate) enum PatternKey {
    Named(Literal),
    Computed(Node),
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Plus,
    Minus,
    Not,
    BitNot,
    TypeOf,
}

impl Unary {
    /// As it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Not => "!",
            Self::BitNot => "~",
            Self::TypeOf => "typeof",
        }
    }

    /// Every one: each names the next, so that none can be left out.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::Plus), |operator| match operator {
            Self::Plus => Some(Self::Minus),
            Self::Minus => Some(Self::Not),
            Self::Not => Some(Self::BitNot),
            Self::BitNot => Some(Self::TypeOf),
            Self::TypeOf => None,
        })
    }
}

/// Operators that evaluate both operands; those of one precedence associate to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Equal,
    NotEqual,
    StrictEqual,
    StrictNotEqual,
    BitAnd,
    BitXor,
    BitOr,
}

impl Binary {
    /// As it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::ShiftRightUnsigned => ">>>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::StrictEqual => "===",
            Self::StrictNotEqual => "!==",
            Self::BitAnd => "&",
            Self::BitXor => "^",
            Self::BitOr => "|",
        }
    }

    /// Every one: each names the next, so that none can be left out.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::Add), |operator| match operator {
            Self::Add => Some(Self::Subtract),
            Self::Subtract => Some(Self::Multiply),
            Self::Multiply => Some(Self::Divide),
            Self::Divide => Some(Self::Remainder),
            Self::Remainder => Some(Self::ShiftLeft),
            Self::ShiftLeft => Some(Self::ShiftRight),
            Self::ShiftRight => Some(Self::ShiftRightUnsigned),
            Self::ShiftRightUnsigned => Some(Self::Less),
            Self::Less => Some(Self::LessOrEqual),
            Self::LessOrEqual => Some(Self::Greater),
            Self::Greater => Some(Self::GreaterOrEqual),
            Self::GreaterOrEqual => Some(Self::In),
            Self::In => Some(Self::Equal),
            Self::Equal => Some(Self::NotEqual),
            Self::NotEqual => Some(Self::StrictEqual),
            Self::StrictEqual => Some(Self::StrictNotEqual),
            Self::StrictNotEqual => Some(Self::BitAnd),
            Self::BitAnd => Some(Self::BitXor),
            Self::BitXor => Some(Self::BitOr),
            Self::BitOr => None,
        })
    }
}

/// Operators that may leave their right operand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logical {
    And,
    Or,
    Coalesce,
}
