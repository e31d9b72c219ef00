//! Options of the scalars and their ranges.

use crate::error::{GeometryError, check};

/// The seven scalars, in the order used everywhere.
pub const SCALARS: [&str; 7] = [
    "commitment",
    "uncertainty",
    "transition_pressure",
    "recovery_margin",
    "phase_stiffness",
    "novelty",
    "stability",
];

/// How the spread of the continuations is measured.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Uncertainty {
    /// One minus the mean pairwise cosine (an unbiased squared mean resultant length).
    #[default]
    Directional,
    /// Logarithm of the Vendi score with the kernel `exp(4 (cos - 1))`, over `ln n`.
    Vendi,
}

/// What the jerk is compared with for stability.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Stability {
    /// The speeds that it is computed from, which bound it by the triangle inequality.
    #[default]
    Speed,
    /// The largest jerk in the window, as in the papers. Zero on a perfect circle.
    MaxJerk,
}

/// Options that both spaces share.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Frames the scalars depend on: 32 to 16,384; `None` is the whole prefix (vectors only).
    pub window: Option<usize>,
    /// Number of nearest past states whose continuations are used: 2 to 1,024.
    pub k: usize,
    /// Frames over which transition pressure, phase stiffness and stability are taken: at least 1; three strides must
    /// be inside the window.
    pub stride: usize,
    /// Frames a continuation spans, at least 1.
    pub horizon: usize,
    /// Most recent frames that are too close in time to count as a past state, at least 1.
    pub theiler: usize,
    /// Speed per frame below which a state is at rest: 1e-100 to 1e100.
    pub eps_v: f64,
    /// Radius added to that of the window: 1e-100 to 1e100; `None` is `eps_v`.
    pub r0: Option<f64>,
    /// Number of velocities for the directional persistence, at least 1.
    pub persistence: usize,
    /// Weights of certainty, constraint proximity and persistence in commitment: at least 0, sum 1.
    pub commitment: [f64; 3],
    /// Weight of the newest frame in a causal moving average of transition pressure, in `(0, 1]`.
    pub ema: Option<f64>,
    /// Kind of uncertainty.
    pub uncertainty: Uncertainty,
    /// Kind of stability.
    pub stability: Stability,
}

const COMMITMENT: [f64; 3] = [0.4, 0.3, 0.3];

impl Options {
    /// Defaults for poses at 50 Hz.
    pub fn poses() -> Self {
        Self {
            stride: 6,
            horizon: 10,
            theiler: 12,
            eps_v: 1e-4,
            r0: Some(0.01),
            ..Self::vectors()
        }
    }

    /// Defaults for tokens and other vectors.
    pub fn vectors() -> Self {
        Self {
            window: Some(256),
            k: 8,
            stride: 1,
            horizon: 1,
            theiler: 1,
            eps_v: 1e-9,
            r0: None,
            persistence: 5,
            commitment: COMMITMENT,
            ema: None,
            uncertainty: Uncertainty::default(),
            stability: Stability::default(),
        }
    }

    /// The radius offset with its default filled in.
    pub(crate) fn radius_offset(&self) -> f64 {
        self.r0.unwrap_or(self.eps_v)
    }

    /// Checks every range.
    fn validate(&self) -> Result<(), GeometryError> {
        let window = self.window.unwrap_or(usize::MAX);
        let is_window = self.window.is_none_or(|w| (32..=16_384).contains(&w));
        check(is_window, "window", "32 to 16384 frames", window)?;
        check((2..=1024).contains(&self.k), "k", "2 to 1024 neighbours", self.k)?;
        let inside = window.min(1 << 20) - 1;
        for (name, value) in [
            ("horizon", self.horizon),
            ("theiler", self.theiler),
            // Its name in Python.
            ("m", self.persistence),
        ] {
            let frames = format!("1 to {inside} frames, inside the window");
            check((1..=inside).contains(&value), name, frames, value)?;
        }
        let (most, stride) = (inside / 3, self.stride);
        let frames = format!("1 to {most} frames, three strides inside the window");
        check((1..=most).contains(&stride), "stride", frames, stride)?;
        for (name, value) in [("eps_v", self.eps_v), ("r0", self.radius_offset())] {
            check((1e-100..=1e100).contains(&value), name, "1e-100 to 1e100", value)?;
        }
        let c = self.commitment;
        let is_share =
            c.iter().all(|w| (0.0..=1.0).contains(w)) && (c.iter().sum::<f64>() - 1.0).abs() <= 1e-9;
        check(
            is_share,
            "commitment",
            "three weights of at least 0 that sum to 1",
            c,
        )?;
        let is_weight = self.ema.is_none_or(|a| a > 0.0 && a <= 1.0);
        check(
            is_weight,
            "ema",
            "a weight above 0 and at most 1",
            self.ema.unwrap_or(1.0),
        )
    }

    /// Checks every range for vectors of dimension `dim`.
    pub(crate) fn validate_vectors(&self, dim: usize) -> Result<(), GeometryError> {
        check(
            (1..=MAX_DIM).contains(&dim),
            "dim",
            format!("1 to {MAX_DIM}"),
            dim,
        )?;
        self.validate()?;
        // A window that grows begins with two strides of increments and with the velocities of the persistence.
        for (name, rows, frames) in [
            ("window", 1, self.window.unwrap_or(0)),
            ("stride", 2, self.stride),
            ("m", 1, self.persistence),
        ] {
            let most = format!("at most {} frames of {dim} numbers", MAX_NUMBERS / dim / rows);
            check(dim * rows * frames <= MAX_NUMBERS, name, most, frames)?;
        }
        Ok(())
    }
}

/// Most joints of a pose.
pub(crate) const MAX_JOINTS: usize = 1024;

/// Most dimensions of a vector.
pub(crate) const MAX_DIM: usize = 65_536;

/// Most rotations in a window of poses (128 MiB).
const MAX_ROTATIONS: usize = 1 << 22;
/// Most numbers in a window of vectors (128 MiB).
const MAX_NUMBERS: usize = 4 * MAX_ROTATIONS;

/// Limits of one joint: proximity to them replaces proximity to the edge of the window's range. An infinite limit is
/// ignored.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct JointLimit {
    /// The axis of twist in the joint's own frame (any length above zero).
    pub axis: [f64; 3],
    /// Largest swing away from that axis, radians.
    pub swing: f64,
    /// Largest twist about it to either side, radians.
    pub twist: f64,
    /// Largest speed, radians per frame.
    pub speed: f64,
}

/// Options of the pose space.
#[derive(Clone, Debug, PartialEq)]
pub struct PoseConfig {
    /// Options that both spaces share; the window must be finite.
    pub options: Options,
    /// Weight of each joint, at least 0 and not all 0; normalised to sum 1. `None` is uniform. Joints of weight 0 are
    /// absent: never read and never counted as missing.
    pub weights: Option<Vec<f64>>,
    /// Limits of each joint; `None` takes proximity from the data.
    pub limits: Option<Vec<JointLimit>>,
}

impl Default for PoseConfig {
    fn default() -> Self {
        Self {
            options: Options::poses(),
            weights: None,
            limits: None,
        }
    }
}

impl PoseConfig {
    /// Checks every range for a body of `joints` joints.
    pub(crate) fn validate(&self, joints: usize) -> Result<(), GeometryError> {
        let is_body = (1..=MAX_JOINTS).contains(&joints);
        check(is_body, "joints", format!("1 to {MAX_JOINTS}"), joints)?;
        let window = self.options.window;
        check(window.is_some(), "window", "32 to 16384 frames for poses", window)?;
        self.options.validate()?;
        let most = format!("at most {} frames of {joints} joints", MAX_ROTATIONS / joints);
        let frames = window.unwrap_or(0);
        check(joints * frames <= MAX_ROTATIONS, "window", most, frames)?;
        if let Some(w) = &self.weights {
            let one_each = format!("{joints} weights, one for each joint");
            check(w.len() == joints, "weights", one_each, w.len())?;
            let is_usable = w.iter().all(|x| x.is_finite() && *x >= 0.0)
                && (1e-100..=1e100).contains(&w.iter().sum::<f64>());
            check(is_usable, "weights", "finite weights of at least 0, not all 0", w)?;
        }
        if let Some(l) = &self.limits {
            let one_each = format!("{joints} limits, one for each joint");
            check(l.len() == joints, "limits", one_each, l.len())?;
            for (j, limit) in l.iter().enumerate() {
                let JointLimit {
                    axis,
                    swing,
                    twist,
                    speed,
                } = limit;
                let square = axis.iter().map(|c| c * c).sum::<f64>();
                let is_positive = [swing, twist, speed].iter().all(|&&x| x > 0.0);
                let is_usable = is_positive && (1e-12..=1e12).contains(&square);
                check(
                    is_usable,
                    "limits",
                    "an axis with a direction and limits above 0",
                    format_args!("joint {j}: axis {axis:?}, swing {swing}, twist {twist}, speed {speed}"),
                )?;
            }
        }
        Ok(())
    }
}
