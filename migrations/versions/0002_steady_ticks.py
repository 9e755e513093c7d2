"""Ticks say whether their whole second lay in the steady window."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    with op.batch_alter_table("tick") as batch_op:
        batch_op.add_column(
            sa.Column("is_steady", sa.Boolean(), nullable=False, server_default=sa.true())
        )
