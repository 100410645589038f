-- One store's DSN: a secret.
-- $1 type_num
select dsn from stores where type_num = $1
