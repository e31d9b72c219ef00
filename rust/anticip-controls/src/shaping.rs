//! What a performer makes of one output: a part of its range, turned round, as a gate, a toggle, in steps.

use crate::vectors::unit;

/// How one output is shaped, in the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The part of the range that becomes 0..1; what is outside is clipped.
    pub span: (f64, f64),
    /// Turned round.
    pub invert: bool,
    /// A gate: 1 from here on, else 0.
    pub threshold: Option<f64>,
    /// A gate that is open stays so until the value falls so far below the threshold.
    pub hysteresis: f64,
    /// Changes between 0 and 1 whenever the gate (of .5 where there is none) opens.
    pub toggle: bool,
    /// So many values, evenly from 0 to 1; at least 2.
    pub steps: Option<u32>,
}

/// Shapes one output, value by value.
#[derive(Debug, Clone, Copy)]
pub struct Shaper {
    /// How.
    pub shape: Shape,
    /// Whether the gate is open.
    pub open: bool,
    /// Where the toggle stands.
    pub toggled: bool,
    /// The least and the greatest of what came in since this was set; None: nobody asks.
    pub seen: Option<(f64, f64)>,
}

impl Shaper {
    /// Closed, and toggled off.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            open: false,
            toggled: false,
            seen: None,
        }
    }

    /// The shaped value, 0..1.
    pub fn shape(&mut self, value: f64) -> f64 {
        let Shape {
            span: (low, high),
            invert,
            threshold,
            hysteresis,
            toggle,
            steps,
        } = self.shape;
        if let Some((least, most)) = &mut self.seen {
            *least = least.min(value);
            *most = most.max(value);
        }
        let mut value = unit((value - low) / (high - low));
        if invert {
            value = 1.0 - value;
        }
        if toggle || threshold.is_some() {
            let was = self.open;
            self.open = value >= threshold.unwrap_or(0.5) - if was { hysteresis } else { 0.0 };
            self.toggled ^= self.open && !was;
            value = f64::from(u8::from(if toggle { self.toggled } else { self.open }));
        }
        if let Some(steps) = steps {
            let last = f64::from(steps.max(2) - 1);
            value = (value * last).round_ties_even() / last;
        }
        value
    }
}
