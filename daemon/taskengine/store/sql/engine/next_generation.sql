-- Draws the generation of a rebuild that begins.
update task_engine set generation = generation + 1 returning identity::text as identity, generation
