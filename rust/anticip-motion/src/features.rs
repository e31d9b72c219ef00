//! Features: what the motion model sees of each 50 Hz frame, 231 numbers of the body and 48 of the causal twin.

use std::sync::OnceLock;

use anticip_geometry::{Options, PoseConfig, PoseStream, Quat, SCALARS};

use crate::MotionError;
use crate::canonical::{HIPS, JOINT_COUNT, JOINTS};
pub use crate::layout::{FEATURE_COUNT_V1, HEIGHT, MASK, RATE, ROOT_VELOCITY, ROTATION, SCALAR, VELOCITY};
use crate::twin::{TWIN_COUNT, TwinColumns, twin_names};

/// Version of what stands in a row. 2 appended the columns of the twin to the 231 of version 1; 3 has transition pressure, phase
/// stiffness and stability over the stride of poses, where both had them over single frames.
pub const FEATURES_VERSION: u32 = 3;
/// The eight parameters of the causal twin at 0, 20, 60 and 160 ms, and means of that at 20 ms over 1 and 4 s.
pub const TWIN: usize = FEATURE_COUNT_V1;
/// How many numbers a frame has.
pub const FEATURE_COUNT: usize = TWIN + TWIN_COUNT;

/// Positions farther than this (metres) are a fault of the source, not a place.
const FAR: f32 = 1e6;

/// One canonical pose, w, x, y, z, as it travels between the stages.
pub type CanonicalPose = [[f32; 4]; JOINT_COUNT];

/// The name of every feature, in order.
#[must_use]
pub fn feature_names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Vec::with_capacity(FEATURE_COUNT);
        for joint in JOINTS {
            for part in ["xx", "yx", "zx", "xy", "yy", "zy"] {
                names.push(format!("{joint}.rotation.{part}"));
            }
        }
        for joint in JOINTS {
            names.extend(["x", "y", "z"].map(|axis| format!("{joint}.angular_velocity.{axis}")));
        }
        names.extend(JOINTS.map(|joint| format!("{joint}.present")));
        names.extend(SCALARS.map(|scalar| format!("scalar.{scalar}")));
        names.push("root.height".to_owned());
        names.extend(["left", "up", "ahead"].map(|axis| format!("root.velocity.{axis}")));
        names.extend(twin_names());
        names
    })
}

/// Turns canonical 50 Hz frames into feature rows; nothing is allocated after construction.
#[derive(Clone)]
pub struct FeatureExtractor {
    mask: [bool; JOINT_COUNT],
    stream: PoseStream,
    previous: [Quat; JOINT_COUNT],
    root: [f64; 3],
    /// Yaw of the hips, kept through poses that have none (upside down).
    yaw: Quat,
    started: bool,
    scalars: [f64; 7],
    twin: TwinColumns,
}

impl FeatureExtractor {
    /// An extractor for a source that has the joints of `mask`, with a scalar window of `window` frames.
    ///
    /// # Errors
    /// A window out of range, or a mask with no joint at all.
    pub fn new(mask: &[bool; JOINT_COUNT], window: usize) -> Result<Self, MotionError> {
        if !mask.contains(&true) {
            return Err(MotionError::Option {
                option: "mask",
                expected: "at least one joint present",
                given: "none".into(),
            });
        }
        let weights = mask.iter().map(|&m| f64::from(u8::from(m))).collect();
        let config = PoseConfig {
            options: Options {
                window: Some(window),
                ..Options::poses()
            },
            weights: Some(weights),
            limits: None,
        };
        let stream = PoseStream::new(JOINT_COUNT, config);
        Ok(Self {
            mask: *mask,
            stream: stream.map_err(|e| MotionError::Scalars(e.to_string()))?,
            previous: [Quat::IDENTITY; JOINT_COUNT],
            root: [0.0; 3],
            yaw: Quat::IDENTITY,
            started: false,
            scalars: [0.0; 7],
            twin: TwinColumns::default(),
        })
    }

    /// The next frame is a first frame again.
    pub fn reset(&mut self) {
        self.stream.reset();
        self.previous = [Quat::IDENTITY; JOINT_COUNT];
        self.root = [0.0; 3];
        self.yaw = Quat::IDENTITY;
        self.started = false;
        self.twin.reset();
    }

    /// The scalars of the newest frame, over the stride of poses as they are told.
    #[must_use]
    pub fn scalars(&self) -> &[f64; 7] {
        &self.scalars
    }

    /// Brings into the caches what the next frame is likely to need; nothing changes.
    pub fn prewarm(&self) {
        self.stream.prewarm();
    }

    /// False while more than a tenth of the window's joint-frames had to be repaired.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.stream.valid()
    }

    /// Takes one frame and writes its features. Joints set in `held` (bit j: joint j) were not measured in it: they
    /// count as missing to the scalars. What is not finite holds its last value.
    pub fn push(&mut self, pose: &CanonicalPose, root: [f32; 3], held: u32, out: &mut [f32; FEATURE_COUNT]) {
        let mut seen = *pose;
        for j in 0..JOINT_COUNT {
            let last = self.previous[j];
            let q = Quat::from_array(pose[j].map(f64::from)).normalize_or(last);
            let m = q.to_matrix();
            for column in 0..2 {
                for row in 0..3 {
                    out[ROTATION + 6 * j + 3 * column + row] = m[row][column] as f32;
                }
            }
            let turn = if self.started {
                (last.conj() * q).log()
            } else {
                [0.0; 3]
            };
            for (axis, v) in turn.into_iter().enumerate() {
                out[VELOCITY + 3 * j + axis] = (v * RATE) as f32;
            }
            out[MASK + j] = f32::from(u8::from(self.mask[j]));
            if held >> j & 1 == 1 {
                seen[j] = [f32::NAN; 4];
            }
            self.previous[j] = q;
        }
        // A source that flips between wrong shapes is refused earlier: 22 joints always.
        if let Ok(scalars) = self.stream.push(&seen) {
            self.scalars = scalars;
        }
        for (slot, s) in out[SCALAR..HEIGHT].iter_mut().zip(self.scalars) {
            *slot = s as f32;
        }
        self.push_root(root, out);
        self.twin
            .push(&self.previous.map(Quat::to_array), &mut out[TWIN..]);
        self.started = true;
    }

    fn push_root(&mut self, root: [f32; 3], out: &mut [f32; FEATURE_COUNT]) {
        let usable = root.iter().all(|v| v.is_finite() && v.abs() < FAR);
        let here = if usable { root.map(f64::from) } else { self.root };
        // Swing and twist: the twist of the hips about the vertical is where they face.
        let hips = self.previous[HIPS];
        self.yaw = Quat::new(hips.w, 0.0, hips.y, 0.0).normalize_or(self.yaw);
        let step: [f64; 3] = std::array::from_fn(|i| {
            if self.started {
                (here[i] - self.root[i]) * RATE
            } else {
                0.0
            }
        });
        out[HEIGHT] = here[1] as f32;
        for (axis, v) in self.yaw.conj().rotate(step).into_iter().enumerate() {
            out[ROOT_VELOCITY + axis] = v as f32;
        }
        self.root = here;
    }
}

/// Features of a whole clip at 50 Hz: [`FeatureExtractor`] run from its first frame to its last.
///
/// # Errors
/// As [`FeatureExtractor::new`].
pub fn motion_features(
    poses: &[CanonicalPose],
    roots: &[[f32; 3]],
    mask: &[bool; JOINT_COUNT],
    window: usize,
) -> Result<Vec<[f32; FEATURE_COUNT]>, MotionError> {
    let mut extractor = FeatureExtractor::new(mask, window)?;
    let mut rows = vec![[0.0; FEATURE_COUNT]; poses.len().min(roots.len())];
    for ((row, pose), root) in rows.iter_mut().zip(poses).zip(roots) {
        extractor.push(pose, *root, 0, row);
    }
    Ok(rows)
}
