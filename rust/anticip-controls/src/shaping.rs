//! Shaping of one output: part of its range, inverted, as a gate or a toggle, in steps.

use crate::vectors::unit;

/// How long a change of shape takes, in seconds.
const CHANGE_S: f64 = 0.25;

/// How one output is shaped; the steps apply in the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The input range that maps to 0..1; values outside are clamped.
    pub span: (f64, f64),
    /// Whether the value is replaced by 1 - value.
    pub invert: bool,
    /// Gate threshold: the output is 1 from here on, else 0; `None` for no gate.
    pub threshold: Option<f64>,
    /// An open gate closes when the value falls this far below the threshold.
    pub hysteresis: f64,
    /// Whether the output flips between 0 and 1 each time the gate opens; the threshold is 0.5 if there is
    /// none.
    pub toggle: bool,
    /// Number of output levels, evenly spaced from 0 to 1; at least 2.
    pub steps: Option<u32>,
}

/// Shapes one output, value by value.
#[derive(Debug, Clone, Copy)]
pub struct Shaper {
    /// The settings.
    pub shape: Shape,
    /// Whether the gate is open.
    pub open: bool,
    /// Whether the toggle is on.
    pub toggled: bool,
    /// Minimum and maximum of the input since this was set; `None` if they are not tracked.
    pub seen: Option<(f64, f64)>,
    /// The latest output of [`Shaper::step`].
    out: Option<f64>,
    /// Where a change of shape began, and how much of that is left, 1 to 0.
    change: (Option<f64>, f64),
}

impl Shaper {
    /// A shaper whose gate is closed and whose toggle is off.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            open: false,
            toggled: false,
            seen: None,
            out: None,
            change: (None, 0.0),
        }
    }

    /// Replaces the shape; [`Shaper::step`] moves to the new one without a jump.
    pub fn reshape(&mut self, shape: Shape) {
        self.shape = shape;
        self.change = (self.out, 1.0);
    }

    /// The shaped value, `dt` seconds after the last one.
    pub fn step(&mut self, value: f64, dt: f64) -> f64 {
        let mut shaped = self.shape(value);
        let (from, left) = &mut self.change;
        if *left > 0.0 {
            // Linear: a fade that starts flat would hold still while a slider changes the shape.
            *left = (*left - dt.max(0.0) / CHANGE_S).max(0.0);
            // Before its first value the output was not shaped.
            shaped += *left * (*from.get_or_insert(value) - shaped);
        }
        self.out = Some(shaped);
        shaped
    }

    /// The shaped value, 0..1, without regard to a change of shape.
    pub fn shape(&mut self, value: f64) -> f64 {
        let Shape {
            span: (low, high),
            invert,
            threshold,
            hysteresis,
            toggle,
            steps,
        } = self.shape;
        if let Some((min, max)) = &mut self.seen {
            *min = min.min(value);
            *max = max.max(value);
        }
        let mut value = unit((value - low) / (high - low));
        if invert {
            value = 1.0 - value;
        }
        if toggle || threshold.is_some() {
            let was_open = self.open;
            self.open = value >= threshold.unwrap_or(0.5) - if was_open { hysteresis } else { 0.0 };
            self.toggled ^= self.open && !was_open;
            value = f64::from(u8::from(if toggle { self.toggled } else { self.open }));
        }
        if let Some(steps) = steps {
            let last = f64::from(steps.max(2) - 1);
            value = (value * last).round_ties_even() / last;
        }
        value
    }
}
