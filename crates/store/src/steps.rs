//! [`Step`]: every point at which this crate is about to write. A caller may be asked before each, which is how tests
//! kill a process, fill a disk or fail a sync at every one of them.

use kernel::Result;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A point before a write.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Step {
            $($(#[$doc])* $name,)*
        }

        impl Step {
            /// All of them.
            pub const ALL: &'static [Step] = &[$(Step::$name,)*];

            /// Its name, as tests and errors give it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Step::$name => $text,)*
                }
            }
        }
    };
}

steps! {
    /// Bytes of a pack.
    PackWrite = "pack-write",
    /// A pack is whole and not synced.
    PackSync = "pack-sync",
    /// A pack is synced and has no name.
    PackPublish = "pack-publish",
    /// Content of a large file, shared or copied.
    LargeWrite = "large-write",
    /// A large file is whole and not synced.
    LargeSync = "large-sync",
    /// A large file is synced and has no name.
    LargePublish = "large-publish",
    /// A record is about to be appended to a history.
    HistoryAppend = "history-append",
    /// It is appended and not synced.
    HistorySync = "history-sync",
    /// It is synced, and nobody was told.
    HistoryDone = "history-done",
    /// Stamps of a layer.
    StampsWrite = "stamps-write",
    /// A segment of the index.
    IndexWrite = "index-write",
    /// Segments that the new one stands for are about to go.
    IndexRemove = "index-remove",
    /// An entry of a layer is about to be removed.
    RestoreRemove = "restore-remove",
    /// An entry is about to be made or replaced.
    RestorePut = "restore-put",
    /// Metadata of an entry is about to be set.
    RestoreMeta = "restore-meta",
    /// Collection is about to say in the histories what is thinned out.
    GcRecord = "gc-record",
    /// A pack, or a large file, is about to be removed.
    GcRemove = "gc-remove",
}

/// Asked before each step; an error ends what is being done as if the write had failed so.
pub type StepHook = Box<dyn Fn(Step) -> Result<()> + Send + Sync>;

/// The hook, where there is one.
#[derive(Default)]
pub(crate) struct Steps(Option<StepHook>);

impl Steps {
    pub(crate) fn new(hook: StepHook) -> Steps {
        Steps(Some(hook))
    }

    pub(crate) fn at(&self, step: Step) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |hook| hook(step))
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Steps(asked)" } else { "Steps" })
    }
}
