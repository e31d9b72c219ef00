//! The two streams: what comes from outside is checked and repaired here.

use std::hint::black_box;

use pulp::{Arch, NullaryFnOnce};

use crate::config::{Options, PoseConfig};
use crate::engine::Engine;
use crate::error::GeometryError;
use crate::kernel::{LANES, POSE_GROUP};
use crate::quat::Quat;
use crate::space::{PoseSpace, Space, VectorSpace, set_joint};

/// Larger components than this are not data: their squares could not be summed.
const MAX_COMPONENT: f64 = 1e100;

/// How many of the window's states were repaired.
#[derive(Clone, Debug)]
struct Missing {
    /// Repaired parts of each frame in the window, by slot.
    ring: Vec<u32>,
    growing: bool,
    frames: usize,
    in_window: u64,
    ever: u64,
}

impl Missing {
    fn new(window: Option<usize>) -> Self {
        let ring = vec![0; window.unwrap_or(0)];
        Self {
            ring,
            growing: window.is_none(),
            frames: 0,
            in_window: 0,
            ever: 0,
        }
    }

    fn push(&mut self, parts: u32) {
        self.ever += u64::from(parts);
        self.in_window += u64::from(parts);
        if !self.growing {
            let slot = self.frames % self.ring.len();
            self.in_window -= u64::from(std::mem::replace(&mut self.ring[slot], parts));
        }
        self.frames += 1;
    }

    fn reset(&mut self) {
        self.ring.fill(0);
        (self.frames, self.in_window, self.ever) = (0, 0, 0);
    }

    /// Whether at most a tenth of the window's `parts` a frame is missing.
    fn tolerable(&self, parts: usize) -> bool {
        let frames = if self.growing {
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
    /// A stream of poses of `joints` joints. All memory it will ever need is allocated here.
    pub fn new(joints: usize, config: PoseConfig) -> Result<Self, GeometryError> {
        config.validate(joints)?;
        let uniform = vec![1.0; joints];
        let given = config.weights.as_deref().unwrap_or(&uniform);
        let sum: f64 = given.iter().sum();
        let present: Vec<usize> = (0..joints).filter(|&j| given[j] / sum > 0.0).collect();
        let weights: Vec<f64> = present.iter().map(|&j| given[j] / sum).collect();
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

    /// The scalars of the next pose: one unit quaternion `w, x, y, z` a joint (normalised here). A quaternion
    /// that is no rotation holds that joint's last one and is counted.
    pub fn push<T: Copy + Into<f64>>(&mut self, quats: &[[T; 4]]) -> Result<[f64; 7], GeometryError> {
        self.repair(quats)?;
        Ok(self.step())
    }

    /// The scalars of the pose that was repaired last.
    pub(crate) fn step(&mut self) -> [f64; 7] {
        let (engine, state) = (&mut self.engine, &self.pose);
        Arch::new().dispatch(Next { engine, state })
    }

    /// The pose as it is used: normalised, what is missing held and counted.
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

    /// The space of the joints present.
    pub(crate) fn space(&self) -> PoseSpace {
        self.engine.empty_space()
    }

    /// Brings into the caches what the next pose is likely to need; nothing changes.
    pub fn prewarm(&self) {
        black_box(self.engine.touch());
    }

    /// Whether at most a tenth of the window's joint-frames had to be held.
    pub fn valid(&self) -> bool {
        self.missing.tolerable(self.present.len())
    }

    /// Joint-frames held since the stream began.
    pub fn missing(&self) -> u64 {
        self.missing.ever
    }

    /// Frames pushed since the stream began.
    pub fn frames(&self) -> usize {
        self.missing.frames
    }

    /// Makes the next frame a first frame.
    pub fn reset(&mut self) {
        self.engine.reset();
        self.missing.reset();
        let n = self.present.len();
        for i in 0..n {
            set_joint(&mut self.pose, i, Quat::IDENTITY);
        }
    }
}

/// One frame, compiled for each instruction set there may be and run with the best that there is. No compiler reorders
/// or fuses floating-point operations on its own: all of them give the same bits.
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
    /// A stream of vectors of dimension `dim`. With a window, all memory it will ever need is allocated here.
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

    /// The scalars of the next vector. One with a component that is not finite, or beyond 1e100, holds the last
    /// one (zeros before there is one) and is counted.
    pub fn push<T: Copy + Into<f64>>(&mut self, x: &[T]) -> Result<[f64; 7], GeometryError> {
        self.repair(x)?;
        Ok(self.step())
    }

    /// The scalars of the vector that was repaired last.
    pub(crate) fn step(&mut self) -> [f64; 7] {
        let (engine, state) = (&mut self.engine, &self.state);
        Arch::new().dispatch(Next { engine, state })
    }

    /// The vector as it is used: what is missing held and counted.
    pub(crate) fn repair<T: Copy + Into<f64>>(&mut self, x: &[T]) -> Result<&[f64], GeometryError> {
        if x.len() != self.dim {
            return Err(GeometryError::Dimension {
                expected: self.dim,
                given: x.len(),
            });
        }
        // All of them, without stopping at the first: that is the loop that compilers make wide.
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

    /// The space the vectors live in.
    pub(crate) fn space(&self) -> VectorSpace {
        self.engine.empty_space()
    }

    /// Whether at most a tenth of the window's vectors had to be held.
    pub fn valid(&self) -> bool {
        self.missing.tolerable(1)
    }

    /// Vectors held since the stream began.
    pub fn missing(&self) -> u64 {
        self.missing.ever
    }

    /// Frames pushed since the stream began.
    pub fn frames(&self) -> usize {
        self.missing.frames
    }

    /// Makes the next frame a first frame.
    pub fn reset(&mut self) {
        self.engine.reset();
        self.missing.reset();
        self.state.fill(0.0);
    }
}
