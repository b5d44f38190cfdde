"""Used by several rooms; imports none of them.

Options, Arrow, limits and pauses, the disk, and Spark's processes, versions and errors.
"""
