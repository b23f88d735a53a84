//! Which devices take part: groups in three forms, pairs, meshes.

use super::kept::{ints, joined, list, whole, within};
use super::message::{
    AxisRef, DeviceList, Ids, Instruction, IotaDeviceList, IotaTransform, Mesh, MeshAxis, MeshDeviceList, Pair, SubAxis,
};
use super::{malformed, unsupported};
use crate::Result;
use crate::text::cursor::Cursor;

/// `{{0,1},{2,3}}`
fn groups(groups: &[Ids]) -> String {
    format!("{{{}}}", joined(groups.iter().map(|g| format!("{{{}}}", joined(&g.ids)))))
}

/// `replica_groups` in the form that the message has.
pub(super) fn replica_groups(i: &Instruction) -> Result<String> {
    let iota = i.iota_device_list.as_ref().or_else(|| i.device_list.as_ref().and_then(|l| l.iota.as_ref()));
    if let Some(list) = &i.mesh_device_list {
        let Some(mesh) = &list.mesh else {
            return Err(malformed("", "mesh_axes_replica_group_list: expected a mesh, found none"));
        };
        return Ok(format!("{} {}", self::mesh(mesh), axes(&list.axes, mesh)?));
    }
    if let Some(iota) = iota {
        let (dims, order) = (joined(&iota.reshape), iota_order(&iota.transpose));
        return Ok(format!("[{},{}]<=[{dims}]{order}", iota.groups, iota.members));
    }
    Ok(groups(i.device_list.as_ref().map_or(&i.replica_groups, |l| &l.groups)))
}

/// `T(1,0)`, or nothing for the order as it is.
pub(super) fn iota_order<T: Copy + TryInto<usize> + std::fmt::Display>(order: &[T]) -> String {
    let trivial = order.iter().enumerate().all(|(i, &d)| d.try_into().is_ok_and(|d| d == i));
    if trivial { String::new() } else { format!("T({})", joined(order)) }
}

/// Sets the groups of `i`.
pub(super) fn set_replica_groups(i: &mut Instruction, text: &str) -> Result<()> {
    let text = text.trim();
    if text.starts_with("mesh") {
        i.mesh_device_list = Some(whole(text, |c| {
            let mesh = read_mesh(c)?;
            let axes = read_axes(c, &mesh)?;
            Ok(MeshDeviceList { mesh: Some(mesh), axes })
        })?);
    } else if text.starts_with('[') {
        i.iota_device_list = Some(whole(text, |c| {
            let sizes = bracketed(c)?;
            let [groups, members] = sizes[..] else {
                return Err(unsupported("", "an iota of replica groups with other than two dimensions in a message"));
            };
            c.expect("<=")?;
            let (reshape, transpose) = read_iota(c)?;
            let transpose = transpose.into_iter().map(|d| d as i32).collect();
            Ok(IotaDeviceList { groups, members, reshape, transpose })
        })?);
    } else {
        let groups: Vec<Ids> = whole(text, |c| list(c, |c| Ok(Ids { ids: ints(c)? })))?;
        i.replica_groups = groups.clone();
        i.device_list = Some(DeviceList { groups, iota: None });
    }
    Ok(())
}

/// `[2,4]`
pub(super) fn bracketed(c: &mut Cursor<'_>) -> Result<Vec<i64>> {
    within(c, ["[", "]"], |c| c.int("the size of a dimension"))
}

/// `[4,2]T(1,0)`: sizes, and an order of dimensions, the one as it is where none is written.
pub(super) fn read_iota(c: &mut Cursor<'_>) -> Result<(Vec<i64>, Vec<i64>)> {
    let sizes = bracketed(c)?;
    let order = match c.eat("T") {
        true => within(c, ["(", ")"], |c| c.int("a dimension number"))?,
        false => (0..sizes.len() as i64).collect(),
    };
    Ok((sizes, order))
}

/// `{{0,1},{1,0}}`
pub(super) fn pairs(pairs: &[Pair]) -> String {
    format!("{{{}}}", joined(pairs.iter().map(|p| format!("{{{},{}}}", p.source, p.target))))
}

pub(super) fn pair_messages(text: &str) -> Result<Vec<Pair>> {
    let lists = whole(text, |c| list(c, ints))?;
    let pair = |list: Vec<i64>| match list[..] {
        [source, target] => Ok(Pair { source, target }),
        _ => Err(malformed("", format!("source_target_pairs: expected two numbers, found {list:?}"))),
    };
    lists.into_iter().map(pair).collect()
}

/// `{{1,2},{3,4}}`: sizes of slices, `rank` numbers each.
pub(super) fn slice_sizes(sizes: &[i64], rank: usize) -> String {
    format!("{{{}}}", joined(sizes.chunks(rank.max(1)).map(|s| format!("{{{}}}", joined(s)))))
}

pub(super) fn slice_size_list(text: &str) -> Result<Vec<i64>> {
    Ok(whole(text, |c| list(c, ints))?.concat())
}

fn quoted(name: &str) -> String {
    format!("'{name}'")
}

/// `mesh['a'=2,'b'=4]`, with `, device_ids=(...)` where the devices are not in order.
pub(super) fn mesh(mesh: &Mesh) -> String {
    let mut out = format!("mesh[{}]", joined(mesh.axes.iter().map(|a| format!("{}={}", quoted(&a.name), a.size))));
    if let Some(iota) = &mesh.iota {
        let order = iota_order(&iota.transpose);
        if iota.reshape.len() > 1 && !order.is_empty() {
            out.push_str(&format!(", device_ids=([{}]{order})", joined(&iota.reshape)));
        }
    } else if !mesh.device_ids.is_empty() && mesh.device_ids.iter().enumerate().any(|(i, &d)| i as i64 != d) {
        out.push_str(&format!(", device_ids=({})", joined(&mesh.device_ids)));
    }
    out
}

/// One axis: `'a'` or `'a':(1)2`.
pub(super) fn axis(axis: &AxisRef, mesh: &Mesh) -> Result<String> {
    let named = usize::try_from(axis.axis).ok().and_then(|i| mesh.axes.get(i));
    let Some(named) = named else {
        let count = mesh.axes.len();
        return Err(malformed(
            "",
            format!("expected the number of one of {count} axes of a mesh, found {}", axis.axis),
        ));
    };
    let part = axis.part.as_ref().map_or_else(String::new, |p| format!(":({}){}", p.pre_size, p.size));
    Ok(format!("{}{part}", quoted(&named.name)))
}

/// `{'a','b':(1)2}`
fn axes(list: &[AxisRef], mesh: &Mesh) -> Result<String> {
    let each = list.iter().map(|a| axis(a, mesh)).collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", each.join(",")))
}

/// Reads `mesh['a'=2], device_ids=(...)`, up to what follows.
pub(super) fn read_mesh(c: &mut Cursor<'_>) -> Result<Mesh> {
    c.expect("mesh")?;
    let axes = within(c, ["[", "]"], |c| {
        let name = c.string("the name of an axis in quotes")?;
        c.expect("=")?;
        Ok(MeshAxis { name, size: c.int("the size of an axis")? })
    })?;
    let mut out = Mesh { axes, ..Default::default() };
    let comma = c.start();
    if c.eat(",") && c.eat("device_ids") {
        c.expect("=")?;
        c.expect("(")?;
        if c.peek() == Some(b'[') {
            let (reshape, transpose) = read_iota(c)?;
            out.iota = Some(IotaTransform { reshape, transpose });
            c.expect(")")?;
        } else {
            loop {
                out.device_ids.push(c.int("the number of a device")?);
                if !c.eat(",") {
                    break;
                }
            }
            c.expect(")")?;
        }
    } else {
        c.rewind(comma);
    }
    Ok(out)
}

/// Reads `'a'` or `'a':(1)2`.
pub(super) fn read_axis(c: &mut Cursor<'_>, mesh: &Mesh) -> Result<AxisRef> {
    let name = c.string("the name of an axis in quotes")?;
    let Some(axis) = mesh.axes.iter().position(|a| a.name == name) else {
        return Err(malformed("", format!("expected an axis of the mesh, found '{name}'")));
    };
    let mut out = AxisRef { axis: axis as i64, part: None };
    if c.eat(":") {
        c.expect("(")?;
        let pre_size = c.int("the size before a part of an axis")?;
        c.expect(")")?;
        out.part = Some(SubAxis { pre_size, size: c.int("the size of a part of an axis")? });
    }
    Ok(out)
}

/// Reads `{'a','b':(1)2}`.
pub(super) fn read_axes(c: &mut Cursor<'_>, mesh: &Mesh) -> Result<Vec<AxisRef>> {
    list(c, |c| read_axis(c, mesh))
}
