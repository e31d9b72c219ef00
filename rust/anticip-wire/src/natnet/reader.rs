//! Reading of frames and model definitions.

use super::skeleton_update;
use crate::bytes::{array, f32s_le};
use crate::pose::{MAX_JOINTS, SkeletonUpdate};

/// Bytes of a labelled marker.
const LABELLED_MARKER: usize = 26;
/// Bytes after the sections of a frame without section sizes.
const TRAILER: usize = 46;
/// Bytes after the sections of a frame with section sizes.
const TRAILER_WITH_SIZES: usize = 54;
/// Bytes that newer servers may append to the trailer.
const MAX_EXTRA: usize = 16;
/// Maximum plausible count of anything.
const MAX_COUNT: usize = 4096;

/// A bone or rigid body of a frame.
#[derive(Clone, Debug)]
pub(super) struct Bone {
    pub(super) id: i32,
    pub(super) position: [f32; 3],
    pub(super) rotation: [f32; 4],
    pub(super) is_tracked: bool,
}

/// The parts of a frame that are decoded.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) number: u32,
    pub(super) seconds: Option<f64>,
    pub(super) rigid_bodies: Vec<Bone>,
    /// Skeleton ids and bones.
    pub(super) skeletons: Vec<(i32, Vec<Bone>)>,
}

/// Model definitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    pub(super) skeletons: Vec<SkeletonDefinition>,
    /// Ids and names of rigid bodies.
    pub(super) rigid_bodies: Vec<(i32, String)>,
}

/// Definition of a skeleton.
#[derive(Clone, Debug)]
pub(super) struct SkeletonDefinition {
    pub(super) id: i32,
    /// Bone ids, in the order of `skeleton`.
    pub(super) bone_ids: Vec<i32>,
    pub(super) skeleton: SkeletonUpdate,
}

/// Definition of a rigid body, or of a bone of a skeleton.
pub(super) struct BoneDefinition {
    pub(super) id: i32,
    pub(super) parent: i32,
    pub(super) name: String,
    pub(super) offset: [f32; 3],
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn int(&mut self) -> Option<i32> {
        let value = array::<4>(self.data, self.at).map(i32::from_le_bytes)?;
        self.at += 4;
        Some(value)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.int()?).ok().filter(|n| *n <= MAX_COUNT)
    }

    fn floats<const N: usize>(&mut self) -> Option<[f32; N]> {
        let found = f32s_le::<N>(self.data, self.at)?;
        self.at += 4 * N;
        Some(found)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.data.len())?;
        Some(())
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.data.get(self.at..)?;
        let end = rest.iter().take(256).position(|byte| *byte == 0)?;
        self.at += end + 1;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn bone(&mut self) -> Option<Bone> {
        let id = self.int()?;
        let [x, y, z, qx, qy, qz, qw, _] = self.floats::<8>()?;
        let [flags, _] = array::<2>(self.data, self.at)?;
        self.skip(2)?;
        Some(Bone {
            id,
            position: [x, y, z],
            rotation: [qw, qx, qy, qz],
            is_tracked: flags & 1 != 0,
        })
    }

    /// Reads a section's header: the count of its items and, if sections carry sizes, the offset of its end.
    fn section(&mut self, has_sizes: bool) -> Option<(usize, Option<usize>)> {
        let count = self.count()?;
        let end = if has_sizes { Some(self.end()?) } else { None };
        Some((count, end))
    }

    /// Reads a size in bytes and returns the offset at which they end.
    fn end(&mut self) -> Option<usize> {
        let bytes = usize::try_from(self.int()?).ok()?;
        self.at.checked_add(bytes).filter(|end| *end <= self.data.len())
    }

    /// Skips a section, by its size or item by item with `skip_item`.
    fn skip_section(
        &mut self,
        has_sizes: bool,
        mut skip_item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let (count, end) = self.section(has_sizes)?;
        if let Some(end) = end {
            self.at = end;
            return Some(());
        }
        (0..count).try_for_each(|_| skip_item(self))
    }
}

/// Reads a frame; `has_sizes` says whether its sections carry their sizes in bytes.
pub(super) fn read_frame(data: &[u8], has_sizes: bool) -> Option<Frame> {
    let mut r = Reader { data, at: 0 };
    let number = r.int()? as u32;
    r.skip_section(has_sizes, |r| {
        r.text()?;
        let markers = r.count()?;
        r.skip(12 * markers)
    })?;
    r.skip_section(has_sizes, |r| r.skip(12))?;
    let (count, end) = r.section(has_sizes)?;
    let rigid_bodies: Option<Vec<Bone>> = (0..count).map(|_| r.bone()).collect();
    let rigid_bodies = rigid_bodies?;
    if end.is_some_and(|end| end != r.at) {
        return None;
    }
    let (count, end) = r.section(has_sizes)?;
    let mut skeletons = Vec::new();
    for _ in 0..count {
        let id = r.int()?;
        let bones = r.count().filter(|n| *n <= MAX_JOINTS)?;
        let bones: Option<Vec<Bone>> = (0..bones).map(|_| r.bone()).collect();
        skeletons.push((id, bones?));
    }
    if end.is_some_and(|end| end != r.at) {
        return None;
    }
    if has_sizes {
        r.skip_section(true, |_| None)?;
    }
    r.skip_section(has_sizes, |r| r.skip(LABELLED_MARKER))?;
    for _ in ["force plates", "devices"] {
        r.skip_section(has_sizes, |r| {
            r.int()?;
            let channels = r.count()?;
            (0..channels).try_for_each(|_| {
                let samples = r.count()?;
                r.skip(4 * samples)
            })
        })?;
    }
    let trailer = if has_sizes {
        TRAILER_WITH_SIZES..=TRAILER_WITH_SIZES + MAX_EXTRA
    } else {
        TRAILER..=TRAILER
    };
    if !trailer.contains(&(data.len() - r.at)) {
        return None;
    }
    let seconds = array::<8>(data, r.at + 8).map(f64::from_le_bytes);
    Some(Frame {
        number,
        rigid_bodies,
        seconds: seconds.filter(|s| s.is_finite() && *s >= 0.0),
        skeletons,
    })
}

/// Layout of model definitions, which depends on the protocol's version.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Definitions carry their sizes in bytes.
    has_sizes: bool,
    /// Rigid bodies and bones have a rotation (in T-pose the identity).
    has_rotations: bool,
    /// Markers have names.
    has_marker_names: bool,
}

impl Layout {
    /// The layouts of NatNet 4.2 and later, 4.1, 4.0, and 3.
    pub(super) const ALL: [Self; 4] = [
        Self::new(true, true, true),
        Self::new(true, false, true),
        Self::new(false, false, true),
        Self::new(false, false, false),
    ];

    const fn new(has_sizes: bool, has_rotations: bool, has_marker_names: bool) -> Self {
        Self {
            has_sizes,
            has_rotations,
            has_marker_names,
        }
    }
}

/// Reads model definitions in the given layout.
pub(super) fn read_definitions(data: &[u8], layout: Layout) -> Option<Definitions> {
    let Layout {
        has_sizes,
        has_rotations,
        has_marker_names,
    } = layout;
    let mut r = Reader { data, at: 0 };
    let read_bone = |r: &mut Reader<'_>| -> Option<BoneDefinition> {
        let name = r.text()?;
        let (id, parent) = (r.int()?, r.int()?);
        let offset = r.floats::<3>()?;
        r.skip(if has_rotations { 16 } else { 0 })?;
        let markers = r.count()?;
        r.skip(16 * markers)?;
        for _ in 0..if has_marker_names { markers } else { 0 } {
            r.text()?;
        }
        Some(BoneDefinition {
            id,
            parent,
            name,
            offset,
        })
    };
    let mut definitions = Definitions::default();
    for _ in 0..r.count()? {
        let kind = r.int()?;
        let end = if has_sizes { Some(r.end()?) } else { None };
        match kind {
            0 if end.is_none() => {
                r.text()?;
                for _ in 0..r.count()? {
                    r.text()?;
                }
            }
            1 => {
                let body = read_bone(&mut r)?;
                definitions.rigid_bodies.push((body.id, body.name));
            }
            2 => {
                r.text()?;
                let id = r.int()?;
                let count = r.count().filter(|n| *n <= MAX_JOINTS)?;
                let bones: Option<Vec<_>> = (0..count).map(|_| read_bone(&mut r)).collect();
                let bones = bones?;
                definitions.skeletons.push(SkeletonDefinition {
                    id,
                    skeleton: skeleton_update(&bones)?,
                    bone_ids: bones.iter().map(|bone| bone.id).collect(),
                });
            }
            3..=6 if end.is_none() => return Some(definitions),
            0..=6 => {}
            _ => return None,
        }
        if let Some(end) = end {
            // The size shows whether the layout was the right one.
            if matches!(kind, 1 | 2) && r.at != end {
                return None;
            }
            r.at = end;
        }
    }
    // Without sizes only the end shows whether the layout was the right one.
    (has_sizes || r.at == data.len()).then_some(definitions)
}
