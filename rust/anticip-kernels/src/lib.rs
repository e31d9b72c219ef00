//! Kernels of the model family, forward and backward, for operations that are slow in torch.
//!
//! [`Scan`], [`Places`] and [`Gru`] belong to PRISM positions, [`Field`] and [`Gated`] to the control field,
//! [`Trajectory`] and [`Sinusoids`] to positions that follow the path of embeddings, [`PlanAhead`], [`PlanDraw`] and
//! [`PlanRows`] to planning.
//!
//! [`Scan`] is the histogram scan of PRISM positions (Lee 2025) over whole sequences: cursors hold a probability
//! distribution over places and move with learned probabilities. [`Places`] fuses it with the product that reads
//! position vectors from the histograms, and has the backward pass.
//!
//! A cursor at step t with histogram `h` (P places) and moves `inc`, `dec`, `keep`, `to0`, `to1`:
//!
//! ```text
//! n[i] = keep h[i] + inc h[i-1] + dec h[i+1]        (mass that would leave either end stays there)
//! n[0] += to0 sum(h),  n[1] += to1 sum(h),  n[k] += jump[k] sum(h)
//! h'   = (n + eps)^gamma / sum (n + eps)^gamma      (or n itself, without sharpening)
//! ```
//!
//! ```
//! use anticip_kernels::{Dims, Scan};
//!
//! let dims = Dims { batch: 1, cursors: 1, steps: 2, places: 4, jumping: 0 };
//! let scan = Scan { dims, moves: &[1.0, 0.0, 0.0, 0.0, 0.0].repeat(2), start: &[1.0_f64, 0.0, 0.0, 0.0],
//!     gamma: None, jumps: None };
//! let mut out = vec![0.0; 8];
//! scan.forward(&mut out)?;
//! assert_eq!(out, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
//! # Ok::<(), anticip_kernels::KernelError>(())
//! ```
#![forbid(unsafe_code)]

/// Compiles methods of `T` here, as f32 and f64, rather than in each crate that calls them.
macro_rules! for_both_precisions {
    ($($methods:tt)*) => {
        const _: () = {
            type T = f32;
            $($methods)*
        };
        const _: () = {
            type T = f64;
            $($methods)*
        };
    };
}

mod beta;
mod error;
mod field;
mod gate;
mod gru;
mod lanes;
mod matrix;
mod places;
mod plan;
mod plan_ahead;
mod plan_rows;
mod real;
mod scan;
mod step;
mod trajectory;

pub use error::KernelError;
pub use field::{Field, FieldGradients, OUTPUTS, OutputGradients};
pub use gate::{Gated, Heads};
pub use gru::{GATES, Gru, GruGradients};
pub use lanes::Lanes;
pub use places::{PlaceGradients, Places, SEGMENT};
pub use plan::{OccurringCodes, PlanDraw};
pub use plan_ahead::PlanAhead;
pub use plan_rows::PlanRows;
pub use real::Real;
pub use scan::{Dims, Gradients, Scan};
pub use step::MOVES;
pub use trajectory::{Sinusoids, Trajectory};
