//! The privileges and SIDs that every system has, as `SeExports` publishes them.
#![expect(
    unsafe_code,
    reason = "a structure of numbers and pointers starts as zeros"
)]

use std::sync::OnceLock;

use nt::se::{LUID, SE_EXPORTS};

/// A SID in its binary form: revision 1, an authority, and what it numbers.
pub(super) fn sid(authority: u8, parts: &[u32]) -> Vec<u8> {
    let count = u8::try_from(parts.len()).unwrap_or(u8::MAX);
    let mut bytes = vec![1, count, 0, 0, 0, 0, 0, authority];
    bytes.extend(parts.iter().flat_map(|part| part.to_le_bytes()));
    bytes
}

macro_rules! exports {
    (privileges { $($privilege:ident = $number:literal,)* } sids { $($sid:ident = $authority:literal [$($part:literal),*],)* }) => {
        fn build() -> SE_EXPORTS {
            // SAFETY: every field is an integer or a raw pointer, for which zero is a value.
            let mut exports: SE_EXPORTS = unsafe { std::mem::zeroed() };
            $( exports.$privilege = LUID { LowPart: $number, HighPart: 0 }; )*
            $( exports.$sid = sid($authority, &[$($part),*]).leak().as_mut_ptr().cast(); )*
            exports
        }
    };
}

exports! {
    privileges {
        SeCreateTokenPrivilege = 2,
        SeAssignPrimaryTokenPrivilege = 3,
        SeLockMemoryPrivilege = 4,
        SeIncreaseQuotaPrivilege = 5,
        SeUnsolicitedInputPrivilege = 6,
        SeTcbPrivilege = 7,
        SeSecurityPrivilege = 8,
        SeTakeOwnershipPrivilege = 9,
        SeLoadDriverPrivilege = 10,
        SeSystemProfilePrivilege = 11,
        SeSystemtimePrivilege = 12,
        SeProfileSingleProcessPrivilege = 13,
        SeIncreaseBasePriorityPrivilege = 14,
        SeCreatePagefilePrivilege = 15,
        SeCreatePermanentPrivilege = 16,
        SeBackupPrivilege = 17,
        SeRestorePrivilege = 18,
        SeShutdownPrivilege = 19,
        SeDebugPrivilege = 20,
        SeAuditPrivilege = 21,
        SeSystemEnvironmentPrivilege = 22,
        SeChangeNotifyPrivilege = 23,
        SeRemoteShutdownPrivilege = 24,
        SeUndockPrivilege = 25,
        SeSyncAgentPrivilege = 26,
        SeEnableDelegationPrivilege = 27,
        SeManageVolumePrivilege = 28,
        SeImpersonatePrivilege = 29,
        SeCreateGlobalPrivilege = 30,
        SeTrustedCredManAccessPrivilege = 31,
        SeRelabelPrivilege = 32,
        SeIncreaseWorkingSetPrivilege = 33,
        SeTimeZonePrivilege = 34,
        SeCreateSymbolicLinkPrivilege = 35,
        SeDelegateSessionUserImpersonatePrivilege = 36,
    }
    sids {
        SeNullSid = 0 [0],
        SeWorldSid = 1 [0],
        SeLocalSid = 2 [0],
        SeCreatorOwnerSid = 3 [0],
        SeCreatorGroupSid = 3 [1],
        SeNtAuthoritySid = 5 [],
        SeDialupSid = 5 [1],
        SeNetworkSid = 5 [2],
        SeBatchSid = 5 [3],
        SeInteractiveSid = 5 [4],
        SeLocalSystemSid = 5 [18],
        SeAliasAdminsSid = 5 [32, 544],
        SeAliasUsersSid = 5 [32, 545],
        SeAliasGuestsSid = 5 [32, 546],
        SeAliasPowerUsersSid = 5 [32, 547],
        SeAliasAccountOpsSid = 5 [32, 548],
        SeAliasSystemOpsSid = 5 [32, 549],
        SeAliasPrintOpsSid = 5 [32, 550],
        SeAliasBackupOpsSid = 5 [32, 551],
        SeAuthenticatedUsersSid = 5 [11],
        SeRestrictedSid = 5 [12],
        SeAnonymousLogonSid = 5 [7],
        SeLocalServiceSid = 5 [19],
        SeNetworkServiceSid = 5 [20],
        SeIUserSid = 5 [17],
        SeUntrustedMandatorySid = 16 [0],
        SeLowMandatorySid = 16 [4096],
        SeMediumMandatorySid = 16 [8192],
        SeHighMandatorySid = 16 [12288],
        SeSystemMandatorySid = 16 [16384],
        SeOwnerRightsSid = 3 [4],
        SeAllAppPackagesSid = 15 [2, 1],
        SeUserModeDriversSid = 5 [84, 0, 0, 0, 0, 0],
        SeProcTrustWinTcbSid = 19 [1024, 8192],
        SeTrustedInstallerSid = 5 [80, 956008885, 3418522649, 1831038044, 1853292631, 2271478464],
    }
}

/// Address of the structure that `SeExports` points to. The SIDs of application silos are null: there are none.
pub(crate) fn se_exports() -> u64 {
    static EXPORTS: OnceLock<usize> = OnceLock::new();
    let address = EXPORTS
        .get_or_init(|| std::ptr::from_mut(Box::leak(Box::new(build()))).expose_provenance());
    *address as u64
}
