//! The parts of a message that describe bodies; everything else is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{JOINT_NAMES, JOINTS};

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    version: Version<'a>,
    pub(super) fps: Option<f64>,
    #[serde(borrow)]
    pub(super) scene: Option<Scene<'a>>,
}

/// A number, or text with a decimal point or comma, depending on Studio's version and locale.
#[derive(Deserialize)]
#[serde(untagged)]
enum Version<'a> {
    Number(f64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

impl Message<'_> {
    /// The major version, or 0 if it is unreadable. A number keeps its fraction.
    pub(super) fn version(&self) -> f64 {
        match &self.version {
            Version::Number(number) => *number,
            Version::Text(text) => text
                .split(['.', ','])
                .next()
                .and_then(|whole| whole.trim().parse().ok())
                .unwrap_or(0.0),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Scene<'a> {
    pub(super) timestamp: f64,
    #[serde(borrow, default)]
    pub(super) actors: Vec<Actor<'a>>,
    /// Bodies in JSON v4, which is not supported.
    #[serde(default)]
    pub(super) newtons: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Actor<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    meta: Option<Meta>,
    body: Option<Body>,
}

impl Actor<'_> {
    /// The body, unless `meta.hasBody` is false (the sender then fills in a made-up one).
    pub(super) fn body(&self) -> Option<&Body> {
        let has_body = self.meta.as_ref().and_then(|meta| meta.has_body);
        self.body.as_ref().filter(|_| has_body != Some(false))
    }
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "hasBody")]
    has_body: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Bone {
    position: Xyz,
    rotation: Xyzw,
}

#[derive(Clone, Copy, Deserialize)]
struct Xyz {
    x: f32,
    y: f32,
    z: f32,
}

#[derive(Clone, Copy, Deserialize)]
struct Xyzw {
    x: f32,
    y: f32,
    z: f32,
    w: f32,
}

impl Bone {
    pub(super) fn position(&self) -> [f32; 3] {
        [self.position.x, self.position.y, self.position.z]
    }

    /// `x, y, z, w`.
    pub(super) fn rotation(&self) -> [f32; 4] {
        [self.rotation.x, self.rotation.y, self.rotation.z, self.rotation.w]
    }
}

/// A body's joints, in the order of [`JOINT_NAMES`]; fingers and toe ends are skipped.
pub(super) struct Body(pub(super) [Option<Bone>; JOINTS]);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct BodyVisitor;
        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = Body;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("joints by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
                let mut body = Body([None; JOINTS]);
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    match JOINT_NAMES.iter().position(|known| *known == name) {
                        Some(id) => body.0[id] = map.next_value()?,
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(body)
            }
        }
        from.deserialize_map(BodyVisitor)
    }
}
