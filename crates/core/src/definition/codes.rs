//! Every code that a definition's problems can have: the one table that the
//! documentation page is made from.

/// A code, its cause and its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemCode {
    /// The code as it is reported.
    pub code: &'static str,
    /// What it means.
    pub cause: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

macro_rules! codes {
    ($($name:ident: $cause:literal, $remedy:literal;)*) => {
        $(#[allow(dead_code, reason = "some codes come from the expression language")]
        pub(crate) const $name: &str = stringify!($name);)*

        /// All codes, in the order of the documentation.
        pub const CODES: &[ProblemCode] = &[$(ProblemCode {
            code: stringify!($name),
            cause: $cause,
            remedy: $remedy,
        },)*];
    };
}

codes! {
    DEFINITION_TOO_LARGE:
        "the document is larger than the limit (64 MiB by default)",
        "split the workflow into subworkflows, or raise the limit";
    NESTING_LIMIT:
        "values are nested deeper than the limit (64 by default)",
        "flatten the value, or pass it as text";
    INVALID_UTF8:
        "the file is not UTF-8 text",
        "save the file as UTF-8";
    JSON_SYNTAX:
        "the text is not JSON",
        "correct the text at the place shown; JSON has no comments and no trailing commas";
    YAML_SYNTAX:
        "the text is not YAML, or uses more of YAML than a definition needs",
        "correct the text at the place shown; one document, no tags, keys that are plain values";
    YAML_ALIAS_LIMIT:
        "aliases repeat more text than the limit",
        "write the repeated part once, as a subworkflow or a variable";
    UNQUOTED_TEMPLATE:
        "a YAML value begins with '{{', which YAML reads as a map",
        "put the template in quotes: \"{{ … }}\"";
    ITEMS_NOT_A_LIST:
        "the `items` of a `forEach` are a text without a template, which never is a list",
        "write a list, or a template: \"{{ trigger.items }}\"";
    UNKNOWN_KEY:
        "an object has a key that definitions do not know",
        "use the nearest known name, or remove the key";
    MISSING_KEY:
        "an object lacks a key that it needs",
        "add the key";
    WRONG_TYPE:
        "a value is of another type than its key needs",
        "write a value of the type named in the message";
    INVALID_VALUE:
        "a value is not one of those allowed, or out of range",
        "choose one of the values named in the message";
    DUPLICATE_KEY:
        "an object has the same key twice",
        "remove one of the two";
    INVALID_ID:
        "an id or a name does not match its pattern, or is too long",
        "use only the characters of the pattern in the message, and no more than it allows";
    NO_NODES:
        "a definition or a body has no nodes",
        "add at least one node";
    NODE_LIMIT:
        "there are more nodes than the limit (100,000 by default), bodies included",
        "split the workflow into subworkflows, or use forEach";
    BODY_DEPTH:
        "bodies are nested deeper than the limit (8)",
        "move the inner loop into a subworkflow";
    DUPLICATE_NODE:
        "two nodes of the same graph have the same id",
        "rename one of them";
    UNKNOWN_NODE:
        "an edge or an expression names a node that does not exist in its scope",
        "correct the name, or add the node; edges stay within their own body";
    NODE_KIND:
        "a node has none or several of the keys that say what it is",
        "give exactly one of actionType, forEach, while, retryUntil, subworkflow, waitForSignal, delay";
    MISPLACED_KEY:
        "a node has a key that its kind does not take",
        "remove the key, or move it to a node of the kind named in the message";
    CYCLE:
        "edges lead from a node back to itself",
        "remove one of the edges, or repeat with while or retryUntil";
    UNREACHABLE_NODE:
        "no path leads from startNode to a node",
        "add an edge to it, or remove the node or startNode";
    INVALID_JOIN:
        "a join waits for more edges than arrive",
        "lower atLeast, or add edges";
    INVALID_DELAY:
        "a delay has neither or both of ms and until",
        "give exactly one of the two";
    INVALID_SCHEMA:
        "a JSON Schema is neither an object nor true or false",
        "write the schema as an object";
    SCHEMA_LIMIT:
        "a JSON Schema expands to more than the limit (10,000 subschemas for one value by default), refers to itself without going deeper into the value, or is larger than 1 MiB; or those of one definition take too much together",
        "refer to a subschema once instead of several times, and let recursion go through properties or items";
    VARS_LIMIT:
        "the variables have more bytes together than the limit (16 MiB by default)",
        "keep large values in outputs, or pass a reference";
    EXPRESSION_SYNTAX:
        "an expression or template does not parse",
        "correct the expression at the place shown";
    EXPRESSION_UNKNOWN_NAME:
        "an expression uses a name that does not exist where it stands",
        "use one of the names of that scope: trigger, context.data, vars, run, …";
    EXPRESSION_NOT_ALLOWED:
        "an expression uses a part of JavaScript that is left out",
        "write it as an expression over values";
    EXPRESSION_UNKNOWN_METHOD:
        "an expression calls a method that does not exist",
        "use one of the documented methods";
    EXPRESSION_KEY_NOT_CONSTANT:
        "the key of context.data or secrets is not a constant",
        "write the key as a text: context.data['node']";
    EXPRESSION_LIMIT:
        "an expression is larger or deeper than the limits",
        "split it, or use core.script";
    EXPRESSION_INVALID:
        "an expression cannot be used, for another reason",
        "see the message";
    UNKNOWN_ACTION:
        "warning: no action of this name is known here",
        "correct the name; or ignore it, if a worker brings the action";
    POOL_UNCHECKED:
        "warning: a node names a pool, and whether it exists is checked only when the definition is published",
        "`windlass pools` lists the pools, `windlass pools set NAME SLOTS` makes one";
    NOT_BEFORE:
        "warning: an expression names a node that cannot have run before it",
        "add an edge from that node, directly or through others";
    UNKNOWN_VARIABLE:
        "warning: an expression reads a variable that nothing in the definition sets",
        "correct the name, or set it in vars or setVars; ignore it, if a parent that shares its variables does";
    UNKNOWN_WORKFLOW:
        "a subworkflow names a workflow, or a version of one, that is not in the catalogue; a warning where the definition is only checked or run",
        "publish that workflow first, or correct the name";
    PARAMETERS_INVALID:
        "literal parameters do not fit the schema of the action",
        "correct the parameter that the pointer names; `windlass actions NAME` shows them";
    VARIABLE_CONFLICT:
        "warning: parallel branches set the same variable, and the last write wins",
        "use two variables, or order the branches";
    DUPLICATE_EDGE:
        "warning: the same edge is written twice",
        "remove one of the two";
    COMPENSATE_UNUSED:
        "warning: a transactional child is undone by its own compensations, and the node's is not called",
        "move it into the child, or choose another isolation";
    TOO_MANY_PROBLEMS:
        "there are more problems than are shown",
        "correct the first ones and check again";
}

/// The code of the table with this name, for codes that come from the expression language.
pub(crate) fn known(code: &str) -> &'static str {
    CODES
        .iter()
        .find(|entry| entry.code == code)
        .map_or(EXPRESSION_INVALID, |entry| entry.code)
}
