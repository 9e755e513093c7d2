"""The only room with SQL: tables, short transactions, one function per question."""
