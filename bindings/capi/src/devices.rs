//! Devices of one process, for programs that were compiled for several.

use crate::failure::{destroy, guard, put};
use crate::feeds::seconds;
use brolga_runtime::devices::Devices;

/// One of several devices. Each is lent to one session, on a thread of its own.
pub struct Device(pub(crate) brolga_runtime::devices::Device);

/// Makes `replicas` times `partitions` devices that know each other: `devices` gets a handle of each, partitions of the first
/// replica first. None waits longer than `timeout` seconds for the others, or, where that is 0, as long as they compute.
///
/// # Safety
/// `devices` has room for so many handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_devices_create(
    replicas: u32,
    partitions: u32,
    timeout: f64,
    devices: *mut *mut Device,
) -> i32 {
    guard(|| {
        let mut local = Devices::local(replicas as usize, partitions as usize)?;
        if let Some(limit) = seconds(timeout)? {
            local = local.with_timeout(limit);
        }
        if devices.is_null() {
            // SAFETY: nothing is written to null; the error says so.
            return unsafe { put(devices, std::ptr::null_mut(), "the devices") };
        }
        for (i, device) in local.connect().into_iter().enumerate() {
            // SAFETY: the caller promises room for each.
            unsafe { put(devices.add(i), Box::into_raw(Box::new(Device(device))), "the devices") }?;
        }
        Ok(())
    })
}

/// Frees a device; a session that has it keeps it.
///
/// # Safety
/// `device` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_device_destroy(device: *mut Device) {
    // SAFETY: the caller's promise.
    unsafe { destroy(device) }
}
