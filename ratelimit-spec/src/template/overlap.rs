//! Whether two templates can render to one name.

use std::collections::HashSet;
use std::convert::Infallible;

use super::Template;
use crate::key::is_value_char;

/// One step of a name.
#[derive(Clone, Copy)]
enum Step {
    /// This character of a literal.
    Literal(char),
    /// The first character of a value, which is never empty.
    Value,
    /// Any number of further characters of a value.
    More,
}

impl Template {
    /// Returns whether some name is rendered by both templates, so that two keys would share one
    /// limiter. A template overlaps itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_spec::Template;
    ///
    /// let user = Template::parse("orders:{user_id}")?;
    /// assert!(user.overlaps(&Template::parse("orders:{other}")?));
    /// assert!(user.overlaps(&Template::parse("orders:5")?));
    /// assert!(!user.overlaps(&Template::parse("orders:{tenant}:{user_id}")?));
    /// # Ok::<(), ratelimit_spec::TemplateError>(())
    /// ```
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        // Most templates already differ in their first literal.
        let (start, other_start) = (&self.literals[0], &other.literals[0]);
        if !start.starts_with(other_start.as_str()) && !other_start.starts_with(start.as_str()) {
            return false;
        }
        match (self.fixed_name(), other.fixed_name()) {
            (Some(one), Some(two)) => one == two,
            (Some(name), None) => other.can_render(&name),
            (None, Some(name)) => self.can_render(&name),
            (None, None) => have_a_common_name(self, other),
        }
    }

    /// Returns the name of a template without placeholders, or `None` if there are any.
    fn fixed_name(&self) -> Option<String> {
        self.is_static().then(|| {
            let Ok(name) = self.render::<Infallible>(|_, _| Ok(()));
            name.into()
        })
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, literal) in self.literals.iter().enumerate() {
            if index > 0 {
                steps.extend([Step::Value, Step::More]);
            }
            steps.extend(literal.chars().map(Step::Literal));
        }
        steps
    }
}

/// Walks through both templates at once, for all lengths of their values.
fn have_a_common_name(one: &Template, other: &Template) -> bool {
    let (one, other) = (one.steps(), other.steps());
    let mut seen = HashSet::from([(0, 0)]);
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        let (step, other_step) = (one.get(i).copied(), other.get(j).copied());
        let mut next = Vec::with_capacity(3);
        if matches!(step, Some(Step::More)) {
            next.push((i + 1, j));
        }
        if matches!(other_step, Some(Step::More)) {
            next.push((i, j + 1));
        }
        match (step, other_step) {
            (None, None) => return true,
            (Some(step), Some(other_step)) if can_be_one_character(step, other_step) => {
                next.push((after(i, step), after(j, other_step)));
            }
            _ => {}
        }
        open.extend(next.into_iter().filter(|at| seen.insert(*at)));
    }
    false
}

fn can_be_one_character(one: Step, other: Step) -> bool {
    match (one, other) {
        (Step::Literal(one), Step::Literal(other)) => one == other,
        (Step::Literal(c), Step::Value | Step::More)
        | (Step::Value | Step::More, Step::Literal(c)) => is_value_char(c),
        (Step::Value | Step::More, Step::Value | Step::More) => true,
    }
}

fn after(index: usize, step: Step) -> usize {
    match step {
        Step::More => index,
        Step::Literal(_) | Step::Value => index + 1,
    }
}
