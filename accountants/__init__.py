"""Privacy statements (claims and bounds of epsilon with their scope), and accountants, which prove
upper bounds on epsilon.
"""
