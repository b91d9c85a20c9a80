//! The evaluations of one decision, made in one pass or in several.
//!
//! An evaluation that takes long must not run where other runs wait. A pass that has used its
//! share of steps leaves the decision unfinished; the next pass, elsewhere, takes the answers
//! of the passes before it in the order in which they were asked for, and evaluates on. Passes
//! over the same state, input and facts ask the same questions, so their order identifies them.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use windlass_expr::{
    Document, DocumentReader, Error, Expression, ExpressionLimits, Interrupt, Meter, Template,
};

use super::Facts;
use crate::run::Run;
use crate::run::environment::EvaluationSite;

/// The evaluations of one decision together take at most so many times the steps of one.
const DECISION_FACTOR: u64 = 100;

/// What stands in for an answer that a pass could not give. It is never recorded.
const UNFINISHED: &str = "EXPRESSION_UNFINISHED";

/// The evaluations of one decision.
#[derive(Debug)]
pub struct Evaluations {
    share: Share,
    interrupt: Option<Interrupt>,
    answers: RefCell<Vec<Result<Answer, Error>>>,
    /// How many answers this pass has asked for.
    asked: Cell<usize>,
    /// Steps of this pass.
    steps: Cell<u64>,
    /// Steps of all answers.
    total: Cell<u64>,
    unfinished: Cell<bool>,
    /// How many times the steps of one evaluation all may take together.
    factor: Cell<u64>,
    /// The run's variables, put together once for all expressions of the decision.
    vars: OnceCell<Document>,
    /// Bytes of the tables that were kept with their values.
    kept: Cell<usize>,
}

/// How much a pass may evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// Everything.
    All,
    /// So many steps, since other runs wait for this thread.
    UpTo(u64),
    /// Whole evaluations, until together they took the steps of one.
    Slice,
}

#[derive(Clone, Debug)]
enum Answer {
    Truth(bool),
    Text(Arc<str>),
}

impl Default for Evaluations {
    /// One pass evaluates everything.
    fn default() -> Self {
        Self::with(Share::All)
    }
}

impl Evaluations {
    /// The first pass, on a thread that other runs wait for.
    pub fn up_to(steps: u64) -> Self {
        Self::with(Share::UpTo(steps))
    }

    fn with(share: Share) -> Self {
        Self {
            share,
            interrupt: None,
            answers: RefCell::default(),
            asked: Cell::default(),
            steps: Cell::default(),
            total: Cell::default(),
            unfinished: Cell::default(),
            factor: Cell::new(DECISION_FACTOR),
            vars: OnceCell::new(),
            kept: Cell::default(),
        }
    }

    /// The next pass, on a thread for evaluations; it ends early once `interrupt` is set.
    #[must_use]
    pub fn next_pass(self, interrupt: &Interrupt) -> Self {
        Self {
            interrupt: Some(interrupt.clone()),
            answers: self.answers,
            total: self.total,
            vars: self.vars,
            kept: self.kept,
            ..Self::with(Share::Slice)
        }
    }

    /// Whether the pass ended before everything was evaluated: what it decided is void.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished.get()
    }

    /// Limits all evaluations together to the steps of one: the run was asked to stop, and what
    /// they decide starts nothing.
    pub(crate) fn hurry(&self) {
        self.factor.set(1);
    }

    /// A reader for the values of one evaluation.
    pub(crate) fn reader(&self) -> DocumentReader<'_> {
        DocumentReader::new(self.interrupt.as_ref())
    }

    /// Whether another document is kept for the evaluations that follow: all that one decision
    /// keeps take no more than those of one evaluation may. What is not kept is read again.
    pub(crate) fn keeps(&self, bytes: usize) -> bool {
        let kept = self.kept.get().saturating_add(bytes);
        let fits = kept <= ExpressionLimits::DOCUMENT_BYTES;
        if fits {
            self.kept.set(kept);
        }
        fits
    }

    /// The run's variables as one value, if an expression named them before.
    pub(crate) fn vars(&self) -> Option<&Document> {
        self.vars.get()
    }

    /// Keeps the run's variables, if there is room.
    pub(crate) fn keep_vars(&self, vars: &Document) {
        if self.keeps(vars.bytes()) {
            self.vars.get_or_init(|| vars.clone());
        }
    }

    /// The answer to the next question: as a pass before gave it, or evaluated now.
    fn answer(
        &self,
        limits: &ExpressionLimits,
        evaluate: impl FnOnce(&ExpressionLimits, &mut Meter) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let number = self.asked.replace(self.asked.get() + 1);
        if let Some(answer) = self.answers.borrow().get(number) {
            return answer.clone();
        }
        let together = limits.steps.saturating_mul(self.factor.get());
        let answer = if self.total.get() >= together {
            Err(too_many_together(together))
        } else {
            let answer = self.evaluate(limits, evaluate);
            if self.unfinished.get() {
                return answer;
            }
            answer
        };
        self.answers.borrow_mut().push(answer.clone());
        answer
    }

    fn evaluate(
        &self,
        limits: &ExpressionLimits,
        evaluate: impl FnOnce(&ExpressionLimits, &mut Meter) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let steps = self.steps_left(limits);
        if self.unfinished.get() || steps == 0 {
            self.unfinished.set(true);
            return Err(unfinished());
        }
        let mut meter = Meter {
            interrupt: self.interrupt.clone(),
            ..Meter::default()
        };
        let answer = evaluate(&ExpressionLimits { steps, ..*limits }, &mut meter);
        self.steps.set(self.steps.get() + meter.steps);
        let was_cut_short = match &answer {
            Err(error) if error.code == "EXPRESSION_LIMIT" => steps < limits.steps,
            Err(error) => error.code == "EXPRESSION_INTERRUPTED",
            Ok(_) => false,
        };
        if was_cut_short {
            self.unfinished.set(true);
            return Err(unfinished());
        }
        self.total.set(self.total.get() + meter.steps);
        answer
    }

    /// How many steps the next evaluation may take in this pass; none if it has to wait.
    fn steps_left(&self, limits: &ExpressionLimits) -> u64 {
        let used = self.steps.get();
        match self.share {
            Share::All => limits.steps,
            Share::UpTo(steps) => limits.steps.min(steps.saturating_sub(used)),
            Share::Slice if used < limits.steps => limits.steps,
            Share::Slice => 0,
        }
    }
}

impl Answer {
    fn is_true(&self) -> bool {
        matches!(self, Self::Truth(true))
    }

    fn into_text(self) -> Arc<str> {
        match self {
            Self::Text(text) => text,
            Self::Truth(truth) => truth.to_string().into(),
        }
    }
}

impl Run {
    /// Whether a condition holds at a place.
    pub(super) fn truth(
        &self,
        condition: &Expression,
        place: &EvaluationSite<'_>,
        facts: &Facts<'_>,
    ) -> Result<bool, Error> {
        let answer = facts.answer(|limits, meter| {
            let inputs = self.inputs(condition.references(), place, facts)?;
            let value = condition.evaluate_metered(&inputs.as_slots(), limits, meter)?;
            Ok(Answer::Truth(value.is_truthy()))
        });
        answer.map(|answer| answer.is_true())
    }

    /// The result of an expression at a place, as `String()` writes it.
    pub(super) fn display(
        &self,
        expression: &Expression,
        place: &EvaluationSite<'_>,
        facts: &Facts<'_>,
    ) -> Result<Arc<str>, Error> {
        let answer = facts.answer(|limits, meter| {
            let inputs = self.inputs(expression.references(), place, facts)?;
            let slots = inputs.as_slots();
            let value = expression.evaluate_metered(&slots, limits, meter)?;
            Ok(Answer::Text((*value.to_display_string()?).into()))
        });
        answer.map(Answer::into_text)
    }

    /// A template's JSON text at a place.
    pub(super) fn rendered(
        &self,
        template: &Template,
        place: &EvaluationSite<'_>,
        facts: &Facts<'_>,
    ) -> Result<Arc<str>, Error> {
        let answer = facts.answer(|limits, meter| {
            let inputs = self.inputs(template.references(), place, facts)?;
            let text = template.render_metered(&inputs.as_slots(), limits, meter)?;
            Ok(Answer::Text(text.into()))
        });
        answer.map(Answer::into_text)
    }
}

impl Facts<'_> {
    fn answer(
        &self,
        evaluate: impl FnOnce(&ExpressionLimits, &mut Meter) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        self.evaluations.answer(&self.limits.expressions, evaluate)
    }
}

fn too_many_together(steps: u64) -> Error {
    let message = format!("the expressions of this decision take more than {steps} steps together");
    error("EXPRESSION_LIMIT", message)
}

fn unfinished() -> Error {
    error(UNFINISHED, "the evaluation goes on elsewhere".to_owned())
}

fn error(code: &'static str, message: String) -> Error {
    Error {
        code,
        message,
        offset: 0,
        pointer: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ExpressionLimits = ExpressionLimits {
        steps: 100,
        ..ExpressionLimits::DEFAULT
    };

    /// Asks for the numbers up to `count`, each at a price, and says which were computed.
    fn ask(evaluations: &Evaluations, count: u64, price: u64) -> (Vec<Option<Arc<str>>>, Vec<u64>) {
        let computed = RefCell::new(Vec::new());
        let answers = (0..count).map(|number| {
            let answer = evaluations.answer(&LIMITS, |limits, meter| {
                computed.borrow_mut().push(number);
                meter.steps = price.min(limits.steps);
                match price <= limits.steps {
                    true => Ok(Answer::Text(number.to_string().into())),
                    false => Err(error("EXPRESSION_LIMIT", "too many steps".to_owned())),
                }
            });
            answer.ok().map(Answer::into_text)
        });
        (answers.collect(), computed.into_inner())
    }

    #[test]
    fn the_next_pass_computes_only_what_is_missing() {
        let first = Evaluations::up_to(25);
        let (_, computed) = ask(&first, 4, 10);
        // The third is cut short, and the fourth is not begun.
        assert_eq!(computed, [0, 1, 2]);
        assert!(first.is_unfinished());
        let second = first.next_pass(&Interrupt::new());
        let (answers, computed) = ask(&second, 4, 10);
        assert_eq!(computed, [2, 3]);
        assert!(!second.is_unfinished());
        let expected = ["0", "1", "2", "3"].map(|answer| Some(answer.into()));
        assert_eq!(answers, expected);
    }

    #[test]
    fn a_pass_ends_after_the_steps_of_one_evaluation() {
        let pass = Evaluations::up_to(0).next_pass(&Interrupt::new());
        let (_, computed) = ask(&pass, 1000, 40);
        assert_eq!(computed, [0, 1, 2]);
        assert!(pass.is_unfinished());
    }

    #[test]
    fn a_limit_of_the_expression_itself_is_an_answer() {
        let pass = Evaluations::up_to(1000);
        let (answers, _) = ask(&pass, 1, 101);
        assert_eq!(answers, [None]);
        assert!(!pass.is_unfinished());
    }

    #[test]
    fn a_decision_keeps_no_more_documents_than_one_evaluation_may_read() {
        let first = Evaluations::up_to(1);
        assert!(first.keeps(ExpressionLimits::DOCUMENT_BYTES - 1));
        assert!(!first.keeps(2));
        let second = first.next_pass(&Interrupt::new());
        assert!(second.keeps(1), "the next pass has what the first kept");
        assert!(!second.keeps(1));
    }

    #[test]
    fn all_evaluations_together_have_a_limit() {
        let pass = Evaluations::default();
        let (answers, computed) = ask(&pass, 2 * DECISION_FACTOR, 100);
        assert_eq!(computed.len() as u64, DECISION_FACTOR);
        assert!(answers.last().is_some_and(Option::is_none));
        assert!(!pass.is_unfinished());
        let hurried = Evaluations::default();
        hurried.hurry();
        assert_eq!(ask(&hurried, 10, 60).1, [0, 1]);
    }
}
