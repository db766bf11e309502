//! What the call path works with: everything that was opened, pinned and checked when the runtime started.

use crate::approval::Approvals;
use crate::grant::ProjectRoot;
use crate::journal::Journal;
use crate::manifest::ToolSet;
use crate::policy::Policies;
use crate::ports::Ports;
use crate::project::Project;
use crate::redact::Redactor;
use crate::sandbox::Boundary;
use crate::session::Sessions;
use std::fmt;
use std::sync::Arc;

/// The pinned world of one runtime. Only [`crate::Runtime`] makes one.
pub struct World {
    pub(crate) project: Project,
    pub(crate) tools: ToolSet,
    pub(crate) policies: Policies,
    pub(crate) boundary: Boundary,
    pub(crate) root: Arc<ProjectRoot>,
    pub(crate) journal: Journal,
    pub(crate) approvals: Approvals,
    pub(crate) redactor: Redactor,
    pub(crate) sessions: Sessions,
    pub(crate) ports: Ports,
    /// What policies see as `context.environment`.
    pub(crate) environment: Arc<str>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({})", self.project.root_text())
    }
}
