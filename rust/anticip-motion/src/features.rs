//! Features: the input of the motion model for each 50 Hz frame, 231 numbers of the body and 48 of the causal twin.

use std::sync::OnceLock;

use anticip_geometry::{Options, PoseConfig, PoseStream, Quat, SCALARS};

use crate::MotionError;
use crate::canonical::{HIPS, JOINT_COUNT, JOINTS};
use crate::error::check;
pub use crate::layout::{FEATURE_COUNT_V1, HEIGHT, MASK, RATE, ROOT_VELOCITY, ROTATION, SCALAR, VELOCITY};
use crate::twin::{TWIN_COUNT, TwinColumns, twin_names};

/// Version of the row layout. Version 2 appended the columns of the twin to the 231 of version 1; version 3 computes
/// transition pressure, phase stiffness and stability over the stride of poses instead of single frames.
pub const FEATURES_VERSION: u32 = 3;
/// Start of the twin's columns: its eight parameters at 0, 20, 60 and 160 ms, and means of those at 20 ms over 1 and
/// 4 s.
pub const TWIN: usize = FEATURE_COUNT_V1;
/// Number of features of a frame.
pub const FEATURE_COUNT: usize = TWIN + TWIN_COUNT;

/// Larger coordinates (metres) are a fault of the source and are ignored.
const MAX_COORDINATE: f32 = 1e6;

/// One canonical pose, w, x, y, z, as passed between stages.
pub type CanonicalPose = [[f32; 4]; JOINT_COUNT];

/// Names of all features, in order.
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

/// Converts canonical 50 Hz frames to feature rows; allocates nothing after construction.
#[derive(Clone)]
pub struct FeatureExtractor {
    mask: [bool; JOINT_COUNT],
    stream: PoseStream,
    previous: [Quat; JOINT_COUNT],
    root: [f64; 3],
    /// Heading of the hips, kept through poses that have none (upside down).
    yaw: Quat,
    started: bool,
    scalars: [f64; 7],
    twin: TwinColumns,
}

impl FeatureExtractor {
    /// Creates an extractor for a source with the joints of `mask` and a scalar window of `window` frames.
    ///
    /// # Errors
    /// A window out of range, or a mask without any joint.
    pub fn new(mask: &[bool; JOINT_COUNT], window: usize) -> Result<Self, MotionError> {
        check(mask.contains(&true), "mask", "at least one joint present", "none")?;
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

    /// Starts a new stream with the next frame.
    pub fn reset(&mut self) {
        self.stream.reset();
        self.previous = [Quat::IDENTITY; JOINT_COUNT];
        self.root = [0.0; 3];
        self.yaw = Quat::IDENTITY;
        self.started = false;
        self.twin.reset();
    }

    /// Scalars of the newest frame.
    #[must_use]
    pub fn scalars(&self) -> &[f64; 7] {
        &self.scalars
    }

    /// Loads into the CPU caches what the next frame is likely to need.
    pub fn prewarm(&self) {
        self.stream.prewarm();
    }

    /// False while more than a tenth of the joint-frames in the window were repaired.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.stream.valid()
    }

    /// Takes one frame and writes its features. Joints in `unmeasured` (bit j) were not measured in it and count as
    /// missing to the scalars. Values that are not finite are replaced by the last valid ones.
    pub fn push(
        &mut self,
        pose: &CanonicalPose,
        root: [f32; 3],
        unmeasured: u32,
        out: &mut [f32; FEATURE_COUNT],
    ) {
        let mut measured = *pose;
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
            if unmeasured >> j & 1 == 1 {
                measured[j] = [f32::NAN; 4];
            }
            self.previous[j] = q;
        }
        // Cannot fail: a pose always has 22 joints.
        if let Ok(scalars) = self.stream.push(&measured) {
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
        let is_valid = root.iter().all(|v| v.is_finite() && v.abs() < MAX_COORDINATE);
        let here = if is_valid { root.map(f64::from) } else { self.root };
        // Swing-twist decomposition: the twist of the hips about the vertical is their heading.
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

/// Features of a whole clip at 50 Hz, computed by [`FeatureExtractor`].
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
