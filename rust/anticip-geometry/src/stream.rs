//! The two public streams, which check and repair external data.

use std::hint::black_box;

use pulp::{Arch, NullaryFnOnce};

use crate::config::{Options, PoseConfig};
use crate::engine::Engine;
use crate::error::GeometryError;
use crate::kernel::{LANES, POSE_GROUP};
use crate::quat::Quat;
use crate::space::{PoseSpace, Space, VectorSpace, set_joint};

/// Larger components are treated as missing, because their squares could not be summed.
const MAX_COMPONENT: f64 = 1e100;

/// Counts of repaired parts in the window and overall.
#[derive(Clone, Debug)]
struct Missing {
    /// Repaired parts of each frame in the window, by slot.
    ring: Vec<u32>,
    is_growing: bool,
    frames: usize,
    in_window: u64,
    total: u64,
}

impl Missing {
    fn new(window: Option<usize>) -> Self {
        let ring = vec![0; window.unwrap_or(0)];
        Self {
            ring,
            is_growing: window.is_none(),
            frames: 0,
            in_window: 0,
            total: 0,
        }
    }

    fn push(&mut self, parts: u32) {
        self.total += u64::from(parts);
        self.in_window += u64::from(parts);
        if !self.is_growing {
            let slot = self.frames % self.ring.len();
            self.in_window -= u64::from(std::mem::replace(&mut self.ring[slot], parts));
        }
        self.frames += 1;
    }

    fn reset(&mut self) {
        self.ring.fill(0);
        (self.frames, self.in_window, self.total) = (0, 0, 0);
    }

    /// Whether at most a tenth of the window is missing, with `parts` in each frame.
    fn is_tolerable(&self, parts: usize) -> bool {
        let frames = if self.is_growing {
            self.frames
        } else {
            self.frames.min(self.ring.len())
        };
        self.in_window * 10 <= frames as u64 * parts as u64
    }
}

/// The seven scalars of a stream of poses.
#[derive(Clone, Debug)]
pub struct PoseStream {
    joints: usize,
    /// Joints of weight above zero, in order.
    present: Vec<usize>,
    engine: Engine<PoseSpace>,
    pose: Vec<f64>,
    missing: Missing,
}

impl PoseStream {
    /// Creates a stream of poses of `joints` joints and allocates all memory that it needs.
    pub fn new(joints: usize, config: PoseConfig) -> Result<Self, GeometryError> {
        config.validate(joints)?;
        let uniform = vec![1.0; joints];
        let weights = config.weights.as_deref().unwrap_or(&uniform);
        let sum: f64 = weights.iter().sum();
        let present: Vec<usize> = (0..joints).filter(|&j| weights[j] / sum > 0.0).collect();
        let weights: Vec<f64> = present.iter().map(|&j| weights[j] / sum).collect();
        let limits = config
            .limits
            .as_ref()
            .map_or_else(Vec::new, |l| present.iter().map(|&j| l[j]).collect());
        let space = PoseSpace::new(&weights, limits);
        let pose = identity(weights.len());
        let missing = Missing::new(config.options.window);
        let engine = Engine::new(space, config.options);
        Ok(Self {
            joints,
            present,
            engine,
            pose,
            missing,
        })
    }

    /// Returns the scalars of the next pose: one quaternion `w, x, y, z` for each joint (normalised here). A
    /// quaternion that is not a rotation is replaced by the joint's last one and counted.
    pub fn push<T: Copy + Into<f64>>(&mut self, quats: &[[T; 4]]) -> Result<[f64; 7], GeometryError> {
        self.repair(quats)?;
        Ok(self.step())
    }

    /// Returns the scalars of the pose that was repaired last.
    pub(crate) fn step(&mut self) -> [f64; 7] {
        let (engine, state) = (&mut self.engine, &self.pose);
        Arch::new().dispatch(Next { engine, state })
    }

    /// Returns the pose as it is used: normalised, with missing joints held and counted.
    pub(crate) fn repair<T: Copy + Into<f64>>(&mut self, quats: &[[T; 4]]) -> Result<&[f64], GeometryError> {
        if quats.len() != self.joints {
            return Err(GeometryError::Joints {
                expected: self.joints,
                given: quats.len(),
            });
        }
        let mut held = 0;
        for (i, &j) in self.present.iter().enumerate() {
            match Quat::from_array(quats[j].map(Into::into)).try_normalize() {
                Some(q) => set_joint(&mut self.pose, i, q),
                None => held += 1,
            }
        }
        self.missing.push(held);
        Ok(&self.pose)
    }

    /// An empty space of the joints present.
    pub(crate) fn space(&self) -> PoseSpace {
        self.engine.empty_space()
    }

    /// Loads into the CPU caches what the next pose is likely to need.
    pub fn prewarm(&self) {
        black_box(self.engine.touch());
    }

    /// Whether at most a tenth of the joint-frames in the window were held.
    pub fn valid(&self) -> bool {
        self.missing.is_tolerable(self.present.len())
    }

    /// Joint-frames held since the start of the stream.
    pub fn missing(&self) -> u64 {
        self.missing.total
    }

    /// Frames pushed since the start of the stream.
    pub fn frames(&self) -> usize {
        self.missing.frames
    }

    /// Starts a new stream with the next frame.
    pub fn reset(&mut self) {
        self.engine.reset();
        self.missing.reset();
        let n = self.present.len();
        for i in 0..n {
            set_joint(&mut self.pose, i, Quat::IDENTITY);
        }
    }
}

/// One frame, compiled for several instruction sets and run with the best available one. Compilers do not reorder or
/// fuse floating-point operations on their own, so all of them give the same bits.
struct Next<'a, S> {
    engine: &'a mut Engine<S>,
    state: &'a [f64],
}

impl<S: Space> NullaryFnOnce for Next<'_, S> {
    type Output = [f64; 7];

    #[inline(always)]
    fn call(self) -> [f64; 7] {
        self.engine.push(self.state)
    }
}

/// A pose of identities, padding included.
fn identity(joints: usize) -> Vec<f64> {
    let mut pose = vec![0.0; joints.div_ceil(LANES) * POSE_GROUP];
    for group in pose.chunks_exact_mut(POSE_GROUP) {
        group[..LANES].fill(1.0);
    }
    pose
}

/// The seven scalars of a stream of vectors.
#[derive(Clone, Debug)]
pub struct VectorStream {
    dim: usize,
    engine: Engine<VectorSpace>,
    state: Vec<f64>,
    missing: Missing,
}

impl VectorStream {
    /// Creates a stream of vectors of dimension `dim`. With a window, all memory that it needs is allocated here.
    pub fn new(dim: usize, options: Options) -> Result<Self, GeometryError> {
        options.validate_vectors(dim)?;
        let missing = Missing::new(options.window);
        let engine = Engine::new(VectorSpace::new(dim), options);
        Ok(Self {
            dim,
            engine,
            state: vec![0.0; dim.next_multiple_of(LANES)],
            missing,
        })
    }

    /// Returns the scalars of the next vector. One with a component that is not finite, or beyond 1e100, is replaced
    /// by the last one (zeros before there is one) and counted.
    pub fn push<T: Copy + Into<f64>>(&mut self, x: &[T]) -> Result<[f64; 7], GeometryError> {
        self.repair(x)?;
        Ok(self.step())
    }

    /// Returns the scalars of the vector that was repaired last.
    pub(crate) fn step(&mut self) -> [f64; 7] {
        let (engine, state) = (&mut self.engine, &self.state);
        Arch::new().dispatch(Next { engine, state })
    }

    /// Returns the vector as it is used: held and counted if it is missing.
    pub(crate) fn repair<T: Copy + Into<f64>>(&mut self, x: &[T]) -> Result<&[f64], GeometryError> {
        if x.len() != self.dim {
            return Err(GeometryError::Dimension {
                expected: self.dim,
                given: x.len(),
            });
        }
        // All components, without stopping at the first: compilers can vectorise such a loop.
        let usable = x
            .iter()
            .fold(true, |usable, &c| usable & (c.into().abs() <= MAX_COMPONENT));
        if usable {
            for (s, &c) in self.state.iter_mut().zip(x) {
                *s = c.into();
            }
        }
        self.missing.push(u32::from(!usable));
        Ok(&self.state)
    }

    /// An empty space of the vectors.
    pub(crate) fn space(&self) -> VectorSpace {
        self.engine.empty_space()
    }

    /// Whether at most a tenth of the vectors in the window were held.
    pub fn valid(&self) -> bool {
        self.missing.is_tolerable(1)
    }

    /// Vectors held since the start of the stream.
    pub fn missing(&self) -> u64 {
        self.missing.total
    }

    /// Frames pushed since the start of the stream.
    pub fn frames(&self) -> usize {
        self.missing.frames
    }

    /// Starts a new stream with the next frame.
    pub fn reset(&mut self) {
        self.engine.reset();
        self.missing.reset();
        self.state.fill(0.0);
    }
}
