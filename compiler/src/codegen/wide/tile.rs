//! Tiles of two axes: elements that lie side by side along one axis and are wanted along the other change places in registers.
//!
//! A tile is a stage with one short sequential loop. Both its loops are written out: for each group of a register's elements along
//! the sequential axis, and each block along the vector axis, what is contiguous along the former is loaded as rows of a square and
//! transposed.

use super::select::{Access, Block, Pointer, Selector, Turn, count, load_code};
use super::{Frame, Reg};
use crate::codegen::rows::{RowLoop, Width};
use crate::kernel::body::{Lane, Mem, NodeId, Op};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Loop, Nest, Stage};
use iced_x86::Code;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Tiles go in registers of 256 bits: squares of eight by eight elements, a cache line being two of them.
const BLOCK: i64 = Width::W256.block();

/// The most elements of a tile.
const MOST_ELEMENTS: i64 = 256;

/// The sequential loop of a stage that is a tile of whole squares.
pub fn tile_of(stage: &Stage) -> Option<Loop> {
    let [inner] = stage.sequential.as_slice() else { return None };
    let plain = stage.accumulators.is_empty() && stage.row_stores.is_empty();
    let squares = inner.extent % BLOCK == 0 && stage.vector.extent % BLOCK == 0;
    let small = inner.extent.checked_mul(stage.vector.extent)? <= MOST_ELEMENTS;
    (plain && squares && small).then_some(*inner)
}

/// The whole tile as one turn; the plan is along both its axes. `None` where some part has no form here, or nothing changes places.
pub(super) fn select(nest: &Nest, row: &RowLoop<'_>, fma: bool) -> Option<(Turn, Frame)> {
    let stage = row.stage;
    let inner = tile_of(stage)?;
    let mut s = Selector::new(nest, row, Width::W256, fma);
    let strides =
        |ix: &Ix| -> Option<(i64, i64)> { Some((row.stride(ix, inner.axis)?, row.stride(ix, stage.vector.axis)?)) };
    let crossing: Vec<Mem> = row
        .loads
        .keys()
        .filter_map(|&id| match &stage.body.node(id).op {
            Op::Load(_, mem, ix) => Some((*mem, strides(ix))),
            _ => None,
        })
        .filter(|(_, strides)| strides.is_some_and(|(along, across)| along == 1 && across != 1))
        .map(|(mem, _)| mem)
        .collect();
    let group = BLOCK / count(crossing.first()?.lane()) as i64;
    let alike = |mem: &Mem| *mem == Mem::of(mem.lane()) && BLOCK / count(mem.lane()) as i64 == group;
    if !crossing.iter().all(alike) {
        return None;
    }
    for first in (0..inner.extent).step_by(group as usize) {
        for block in 0..stage.vector.extent / BLOCK {
            s.square(&strides, (first, group), block)?;
        }
    }
    s.finish()
}

impl Selector<'_> {
    /// The elements of a block along the vector axis, for each of a group along the other.
    fn square(
        &mut self,
        strides: &impl Fn(&Ix) -> Option<(i64, i64)>,
        (first, group): (i64, i64),
        block: i64,
    ) -> Option<()> {
        let (row, stage) = (self.row, self.row.stage);
        let body = &stage.body;
        // Of what changes places, a block for each element of the group.
        let mut turned: HashMap<NodeId, Vec<Block>> = HashMap::new();
        for at in 0..group {
            let mut values: HashMap<NodeId, Block> = HashMap::new();
            for id in row.varying() {
                let node = body.node(id);
                self.turn.mark(body.source(id));
                let v = match &node.op {
                    Op::Load(_, mem, ix) => match strides(ix)? {
                        (along, 1) => self.load(Pointer::Load(id), *mem, (first + at) * along + block * BLOCK)?,
                        (along, 0) => self.same(Pointer::Load(id), *mem, (first + at) * along)?,
                        (1, across) => {
                            let rows = match turned.entry(id) {
                                Entry::Occupied(rows) => rows.into_mut(),
                                Entry::Vacant(none) => {
                                    none.insert(self.turned((id, *mem), (first, group), (block, across))?)
                                }
                            };
                            rows.get(at as usize)?.clone()
                        }
                        _ => return None,
                    },
                    Op::Index(_) | Op::Row(_) => return None,
                    op => {
                        let args: Vec<Block> = node.args.iter().map(|&a| self.argument(body, &values, a)).collect();
                        let from: Vec<Lane> = node.args.iter().map(|&a| body.lane(a)).collect();
                        self.node(op, &args, &from, node.lane)?
                    }
                };
                values.insert(id, v);
            }
            for (number, s) in stage.stores.iter().enumerate() {
                let (along, 1) = strides(&s.index)? else { return None };
                self.turn.mark(body.source(s.value));
                let v = self.argument(body, &values, s.value);
                self.store(Pointer::Store(number), s.mem, (first + at) * along + block * BLOCK, &v)?;
            }
        }
        Some(())
    }

    /// An element in every place of a block.
    fn same(&mut self, p: Pointer, mem: Mem, element: i64) -> Option<Block> {
        let code = match mem {
            Mem::I32 | Mem::F32 => Code::VEX_Vbroadcastss_ymm_m32,
            Mem::I64 | Mem::F64 => Code::VEX_Vbroadcastsd_ymm_m64,
            _ => return None,
        };
        let from = self.access(p, mem, element, 0)?;
        let r = self.load_at(code, from, false);
        Some(vec![r; count(mem.lane())])
    }

    /// Rows of a group's elements, loaded along the group and turned to lie along the vector axis.
    fn turned(
        &mut self,
        (id, mem): (NodeId, Mem),
        (first, group): (i64, i64),
        (block, across): (i64, i64),
    ) -> Option<Vec<Block>> {
        let mut out = vec![Block::new(); group as usize];
        for square in 0..BLOCK / group {
            let rows: Vec<Reg> = (0..group)
                .map(|row| {
                    let element = (block * BLOCK + square * group + row).checked_mul(across)?.checked_add(first)?;
                    let from: Access = self.access(Pointer::Load(id), mem, element, 0)?;
                    Some(self.load_at(load_code(mem), from, false))
                })
                .collect::<Option<_>>()?;
            let columns = if group == BLOCK { self.transposed_8(&rows) } else { self.transposed_4(&rows) };
            out.iter_mut().zip(columns?).for_each(|(block, r)| block.push(r));
        }
        Some(out)
    }

    /// A square of 64-bit elements.
    fn transposed_4(&mut self, rows: &[Reg]) -> Option<Vec<Reg>> {
        use Code::*;
        let [a, b, c, d] = *rows else { return None };
        let pairs = [(VEX_Vunpcklpd_ymm_ymm_ymmm256), (VEX_Vunpckhpd_ymm_ymm_ymmm256)]
            .map(|code| [self.plain(code, &[a, b]), self.plain(code, &[c, d])]);
        let order = [(0, 0x20), (1, 0x20), (0, 0x31), (1, 0x31)];
        Some(order.map(|(k, imm)| self.with_imm(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, &pairs[k], imm)).to_vec())
    }

    /// A square of 32-bit elements.
    fn transposed_8(&mut self, rows: &[Reg]) -> Option<Vec<Reg>> {
        use Code::*;
        // In each half of 128 bits: two elements of two rows, then four elements of one column of four rows.
        let mut fours = Vec::new();
        for four in rows.as_chunks::<4>().0 {
            let [a, b, c, d] = *four;
            for code in [VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256] {
                let (x, y) = (self.plain(code, &[a, b]), self.plain(code, &[c, d]));
                for imm in [0b01_00_01_00, 0b11_10_11_10] {
                    fours.push(self.with_imm(VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[x, y], imm));
                }
            }
        }
        let (upper, lower) = fours.split_at_checked(4)?;
        let mut out = Vec::new();
        for imm in [0x20, 0x31] {
            for (&x, &y) in upper.iter().zip(lower) {
                out.push(self.with_imm(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, &[x, y], imm));
            }
        }
        Some(out)
    }
}
