-- The reads of this transaction all see one moment.
set transaction isolation level repeatable read, read only
